"""People who are confined to a part of the directory, by themselves or by a group: on every way they work by."""

from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from approvals.models import ChangeRequest, Notice
from approvals.review import notifications
from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys.models import Person
from keys.models.people import GroupScopes, keep_scopes, kept_scopes
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.console.plain_browser import PlainBrowser
from tests.support.agent_tools import call_tool
from tests.support.agents import make_agent
from tests.support.cast import (
    Answer,
    Console,
    all_permissions,
    as_scopes,
    make_connection,
    make_integration,
    make_person,
    permissions,
)
from tests.support.configuration import Configure

ADMINISTERS = ("keys.view_person", "keys.change_person", "keys.view_role", "keys.add_role", "keys.view_apikey")


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


class Sites:
    """Two places beside one another, with somebody in each, and one inside the first."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self.berlin, self.paris = (directory.add_unit(name, parent=unit) for name in ("Berlin", "Paris"))
        self.lab = directory.add_unit("Lab", parent=self.berlin)
        self.ada, self.bob, self.eve = (directory.add_user(parent=it) for it in (self.berlin, self.paris, self.lab))
        self.everybody = directory.guid(unit)
        self.berlin_id, self.paris_id, self.lab_id = map(directory.guid, (self.berlin, self.paris, self.lab))

    def seen_by(self, ask: Any, prefix: str = "/api") -> set[UUID]:
        """Which of the people somebody can read, who is refused the others, and finds no others."""
        answers: dict[UUID, Answer] = {
            each: ask(f"{prefix}/ad/users/{each}") for each in (self.ada, self.bob, self.eve)
        }
        assert {answer.status for answer in answers.values()} <= {200, 403}
        seen = {each for each, answer in answers.items() if answer.status == 200}
        found = ask(f"{prefix}/ad/users?base={self.everybody}").body["items"]
        assert {UUID(item["id"]) for item in found} == seen
        return seen


@pytest.fixture
def sites(directory: Directory, organizational_unit: str) -> Sites:
    return Sites(directory, organizational_unit)


@pytest.fixture
def admin(connection: DirectoryConnection) -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def clerk(connection: DirectoryConnection) -> Person:
    """Who may do everything in the directory, and administer some of the gateway."""
    person = make_person(may=[*all_permissions(), *ADMINISTERS])
    Person.objects.filter(pk=person.pk).update(is_staff=True)
    return person


def confine(person: Person, *scopes: UUID) -> Person:
    person.scopes = as_scopes(scopes)
    person.save(update_fields=["scopes"])
    return person


def group_confined_to(*scopes: UUID, may: tuple[str, ...] = ()) -> Group:
    group = Group.objects.create(name=random_name("group"))
    group.permissions.set(permissions(may))
    keep_scopes(group, as_scopes(scopes))
    return group


def raised(operation: str) -> list[Any]:
    """Why the newest record of an operation gave more access."""
    record = OperationRecord.objects.filter(operation=operation).order_by("-id").first()
    assert record is not None
    return record.raised_access or []


def test_it_works(admin: Console, clerk: Person, sites: Sites, directory: Directory) -> None:
    path, his = f"/rest/users/{clerk.public_id}", Console(clerk)
    assert sites.seen_by(his.get, "/rest") == {sites.ada, sites.bob, sites.eve}
    confined = admin.patch(path, {"scopes": [sites.berlin, str(sites.lab_id)]})
    assert confined.body["scopes"] == [sites.berlin, sites.lab]
    assert raised("people.update") == []
    assert sites.seen_by(his.get, "/rest") == {sites.ada, sites.eve}
    directory.rename(sites.berlin_id, "Renamed")
    shown = admin.get(f"{path}/scopes").body
    assert [item["distinguishedName"] for item in shown["items"]] == [
        sites.berlin.replace("Berlin", "Renamed"), sites.lab.replace("Berlin", "Renamed")
    ]  # fmt: skip
    assert sites.seen_by(his.get, "/rest") == {sites.ada, sites.eve}
    elsewhere = his.post(f"/rest/ad/users/{sites.ada}/move", {"parent": str(sites.paris_id)})
    assert elsewhere.status == 403
    me = send_me(his)
    assert me["scopes"] == [str(sites.berlin_id), str(sites.lab_id)]
    assert admin.patch(path, {"scopes": [str(sites.lab_id)]}).status == 200
    assert raised("people.update") == []
    assert admin.patch(path, {"scopes": [str(sites.lab_id), str(sites.paris_id)]}).status == 200
    assert raised("people.update") == ["the person is confined less"]
    assert admin.patch(path, {"scopes": []}).status == 200
    assert raised("people.update") == ["the person is confined less"]
    assert sites.seen_by(his.get, "/rest") == {sites.ada, sites.bob, sites.eve}


def send_me(console: Console) -> Any:
    token = console.post("/rest/session/access-token").body["accessToken"]
    return Client().get("/api/me", headers={"Authorization": f"Bearer {token}"}).json()


def test_who_is_not_confined(admin: Console, clerk: Person, sites: Sites) -> None:
    superuser = make_person(superuser=True)
    refused = admin.patch(f"/rest/users/{superuser.public_id}", {"scopes": [sites.berlin]})
    assert (refused.status, refused.code) == (409, "Request.Conflict")
    own = Console(clerk).patch(f"/rest/users/{clerk.public_id}", {"scopes": [sites.berlin]})
    assert (own.status, own.code) == (409, "Request.Conflict")
    wrong = admin.patch(f"/rest/users/{clerk.public_id}", {"scopes": [sites.berlin, "OU=Nowhere,DC=corp"]})
    assert (wrong.status, wrong.body["errors"][0]["pointer"]) == (400, "#/scopes/1")
    superuser.groups.add(group_confined_to(sites.berlin_id))
    assert sites.seen_by(Console(superuser).get, "/rest") == {sites.ada, sites.bob, sites.eve}


def test_every_confinement_holds(connection: DirectoryConnection, sites: Sites, clerk: Person) -> None:
    """The role's, the owner's and those of the owner's groups; a key that is in use finds out at its next request."""
    key = make_integration(connection, owner=clerk, scopes=[sites.berlin_id, sites.paris_id])
    assert sites.seen_by(key.get) == {sites.ada, sites.bob, sites.eve}
    confine(clerk, sites.berlin_id)
    assert sites.seen_by(key.get) == {sites.ada, sites.eve}
    group = group_confined_to(sites.lab_id)
    clerk.groups.add(group)
    assert sites.seen_by(key.get) == {sites.eve}
    assert key.get("/api/me").body["scopes"] == [str(sites.berlin_id), str(sites.paris_id)]
    GroupScopes.objects.filter(group=group).update(scopes=as_scopes([sites.paris_id]))
    assert sites.seen_by(key.get) == set()


def test_an_agent_is_narrowed_with_its_person(connection: DirectoryConnection, sites: Sites) -> None:
    agent = make_agent(connection)
    assert not call_tool(agent, "read_object", kind="users", id=str(sites.bob)).is_error
    confine(agent.person, sites.berlin_id)
    assert call_tool(agent, "read_object", kind="users", id=str(sites.bob)).code == "Auth.Forbidden"
    assert not call_tool(agent, "read_object", kind="users", id=str(sites.ada)).is_error


@pytest.mark.parametrize("by", ["person", "group"])
def test_who_is_confined_administers_nothing(by: str, clerk: Person, sites: Sites) -> None:
    """Or they would make an account, a role or a key that is confined to nothing."""
    his = Console(clerk)
    assert his.get("/rest/users").status == his.client.get("/admin/").status_code == 200
    if by == "group":
        clerk.groups.add(group_confined_to(sites.berlin_id))
    else:
        confine(clerk, sites.berlin_id)
    for path in ("users", "roles", "api-keys", f"users/{clerk.public_id}/scopes", "permission-groups"):
        assert his.get(f"/rest/{path}").status == 403
    assert his.patch(f"/rest/users/{clerk.public_id}", {"scopes": []}).status == 403
    assert his.client.get("/admin/", follow=True).status_code == 403
    assert 'href="/admin/' not in his.client.get("/console/").content.decode()


def test_accounts_of_people_who_reach_further_are_protected(
    connection: DirectoryConnection, sites: Sites, clerk: Person
) -> None:
    """With the password of one of them somebody confined would be confined no more."""
    confine(clerk, sites.berlin_id)
    may = set(all_permissions()) - {"directory.manage_protected"}
    by_person = make_integration(connection, owner=clerk, may=may)
    by_role = make_integration(connection, scopes=[sites.berlin_id], may=may)
    boss = make_person(may=["directory.read_object"])
    Person.objects.filter(pk=boss.pk).update(connection=connection, object_guid=sites.ada)
    path, body = f"/api/ad/users/{sites.ada}/reset-password", {"generate": True}
    assert [caller.post(path, body).status for caller in (by_person, by_role)] == [403, 403]
    confine(boss, sites.berlin_id)
    assert [caller.post(path, body).status for caller in (by_person, by_role)] == [200, 200]


def test_a_group(admin: Console, clerk: Person, sites: Sites) -> None:
    made = admin.post("/rest/permission-groups", {"name": random_name("Berlin"), "scopes": [sites.berlin]})
    path = f"/rest/permission-groups/{made.body['id']}"
    assert made.body["scopeObjects"][0]["id"] == str(sites.berlin_id)
    his, person = Console(clerk), f"/rest/users/{clerk.public_id}"
    assert admin.patch(person, {"groups": [made.body["name"]]}).status == 200
    assert sites.seen_by(his.get, "/rest") == {sites.ada, sites.eve}
    assert admin.get(f"{person}/scopes").body["groups"][0]["items"][0]["id"] == str(sites.berlin_id)
    assert admin.delete(path).status == 409, "it would confine its members no more"
    assert admin.patch(path, {"scopes": [sites.berlin, sites.paris]}).status == 200
    assert raised("permission-groups.update") == ["the group reaches further parts of the directory"]
    assert admin.get(f"{path}/scopes").body["items"][1]["id"] == str(sites.paris_id)
    assert sites.seen_by(his.get, "/rest") == {sites.ada, sites.bob, sites.eve}
    assert admin.patch(person, {"groups": []}).status == 200
    assert raised("people.update") == ["the person is confined less"]
    assert admin.delete(path).status == 204


def test_in_the_console_and_the_back_office(admin: Console, clerk: Person, sites: Sites) -> None:
    browser = PlainBrowser(admin).open(f"/console/people/{clerk.public_id}/permissions")
    browser.press("Save", scopes="OU=Nowhere,DC=corp")
    assert "is in none of the enabled directories" in browser.text
    browser.press("Save", scopes=f"{sites.berlin}\n{sites.lab_id}")
    assert [scope["guid"] for scope in kept(clerk)] == [str(sites.berlin_id), str(sites.lab_id)]
    name = random_name("Paris")
    browser.open("/console/people/groups/new").press("Create the group", name=name, scopes=sites.paris)
    group = Group.objects.get(name=name)
    assert "Paris" in browser.text
    clerk.groups.add(group)
    told = browser.open(f"/console/people/{clerk.public_id}/scopes").text
    assert all(word in told for word in ("Berlin", "Lab", f"By {name}", "All of these hold"))
    page = f"/console/people/groups/00000000-0000-0000-0000-{group.pk:012x}"
    browser.open(page).press(f"Delete {name}")
    assert "Take them out of it first" in browser.text
    browser.open(page).press("Save", scopes=f"{sites.paris}\n{sites.lab}")
    assert len(kept_scopes(Group.objects.get(pk=group.pk))) == 2
    back_office = Client()
    back_office.force_login(admin.person)
    assert sites.lab in back_office.get(f"/admin/auth/group/{group.pk}/change/").content.decode()


def test_the_console_of_somebody_confined(clerk: Person, sites: Sites, directory: Directory) -> None:
    confine(clerk, sites.berlin_id, sites.lab_id)
    browser = PlainBrowser(Console(clerk))
    tree = browser.open("/console/directory/")
    assert (tree.status, "Berlin" in tree.text, "Paris" in tree.text) == (200, True, False)
    assert str(sites.ada) in browser.open("/console/directory/?now=1").content, "it looks into the first place"
    found = browser.open(f"/console/directory/?now=1&scope=subtree&base={sites.lab_id}")
    assert str(sites.eve) in found.content
    assert browser.open(f"/console/directory/?base={sites.paris_id}").status == 404
    picked = browser.open("/console/directory/tree-picker?field=parent").text
    assert ("Berlin" in picked, "Paris" in picked) == (True, False)
    for place in (
        "",
        "home/activity",
        "accounts/",
        "accounts/enabled",
        "deleted/",
        "service-accounts/",
        "runs/",
        "log/",
    ):
        assert browser.open(f"/console/{place}").status == 200, place
    for place in ("", "/edit", "/groups", "/sign-in", "/history", "/move", "/access-control", "/delete"):
        assert browser.open(f"/console/directory/objects/{sites.ada}{place}").status == 200, place
        assert "Paris" not in browser.content, place
    assert browser.open(f"/console/directory/new?parent={sites.berlin_id}").status == 200
    assert browser.open(f"/console/directory/objects/{sites.bob}").status == 403
    assert "Only in" in browser.open("/console/account").text
    directory.delete(sites.eve)
    directory.delete(sites.lab_id)
    confine(clerk, sites.lab_id)
    assert "does not exist any more" in browser.open("/console/directory/").text


def kept(person: Person) -> Any:
    return Person.objects.get(pk=person.pk).scopes


def test_less_confinement_waits_for_a_second_person(
    admin: Console, clerk: Person, sites: Sites, configure: Configure
) -> None:
    configure("Approvals", AccessNeedsTwo=True)
    path = f"/rest/users/{clerk.public_id}"
    assert admin.patch(path, {"scopes": [sites.berlin]}).status == 200
    assert admin.patch(path, {"scopes": []}).status == 202
    assert sites.seen_by(Console(clerk).get, "/rest") == {sites.ada, sites.eve}


def test_who_can(admin: Console, connection: DirectoryConnection, clerk: Person, sites: Sites) -> None:
    key = make_integration(connection, owner=clerk).key
    confine(clerk, sites.berlin_id)

    def able(target: UUID) -> set[str]:
        items = admin.get(f"/rest/ad/users/{target}/who-can?pageSize=1000").body["items"]
        return {item["name"] for item in items} & {clerk.username, key.name}

    assert (able(sites.ada), able(sites.bob)) == ({clerk.username, key.name}, set())


def test_what_an_approver_sees_and_decides(
    connection: DirectoryConnection, sites: Sites, clerk: Person, directory: Directory, admin: Console
) -> None:
    asking = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    group = directory.add_group(parent=sites.berlin)

    def ask(path: str, body: Any) -> str:
        return str(asking.post(f"/api/ad/{path}", body).body["changeRequest"]["id"])

    inside, outside = ask(f"users/{sites.ada}/disable", None), ask(f"users/{sites.bob}/disable", None)
    across = ask(f"groups/{group}/members", {"add": [str(sites.ada), str(sites.bob)]})
    leaving = ask(f"users/{sites.eve}/move", {"parent": str(sites.paris_id)})
    confine(clerk, sites.berlin_id)
    his = Console(clerk)
    seen = {item["id"] for item in his.get("/rest/change-requests").body["items"]}
    assert seen == {inside, across, leaving}
    assert his.get("/rest/change-requests/statistics").body["waiting"]["security"] == 1
    assert sites.paris not in str(his.get(f"/rest/change-requests/{across}").body)

    def decide(request_id: str, decision: str) -> int:
        digest = ChangeRequest.objects.get(id=request_id).digest
        body = {"digest": digest} if decision == "approve" else {"comment": "No."}
        return his.post(f"/rest/change-requests/{request_id}/{decision}", body).status

    assert [decide(outside, way) for way in ("approve", "reject")] == [404, 404]
    for hidden in (across, leaving):
        review = his.get(f"/rest/change-requests/{hidden}/review").body
        assert (review["mayApprove"], review["mayReject"]) == (False, False)
        assert review["barred"] == "It concerns objects outside of what you are confined to."
        assert [decide(hidden, way) for way in ("approve", "reject")] == [403, 403]
        assert admin.post(f"/rest/change-requests/{hidden}/assign", {"username": clerk.username}).status == 400
    assert his.get("/rest/change-requests/next").body["id"] == inside
    both = [{"id": each, "digest": ChangeRequest.objects.get(id=each).digest} for each in (across, inside)]
    together = his.post("/rest/change-requests/decide", {"decision": "approve", "changeRequests": both}).body
    assert [item["status"] for item in together["results"]] == [None, "approved"]
    assert admin.post(f"/rest/change-requests/{across}/assign", {"username": admin.person.username}).status == 200


def test_mail_tells_of_nothing_outside(
    connection: DirectoryConnection, sites: Sites, clerk: Person, configure: Configure, mailoutbox: list[Any]
) -> None:
    asking = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    names = []
    Person.objects.filter(pk=clerk.pk).update(email="clerk@example.com")
    confine(clerk, sites.berlin_id)
    for account in (sites.ada, sites.bob):
        held = asking.post(f"/api/ad/users/{account}/disable").body["changeRequest"]
        Notice.objects.create(
            person=clerk, change_request_id=held["id"], audience="approver", due_at="2020-01-01T00:00:00Z"
        )
        names.append(held["target"]["distinguishedName"])
    assert notifications.send_due() == 1
    (message,) = mailoutbox
    assert (names[0] in message.body, names[1] in message.body) == (True, False)
