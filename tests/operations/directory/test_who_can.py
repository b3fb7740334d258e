"""Who can do what to an object: the answer is what happens when they try."""

from typing import Any
from uuid import UUID

import ldap
import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from core.call import SupervisionLevel
from core.operation import Effect, operations
from directory.models import DirectoryConnection
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from tests.support.cast import (
    Answer,
    Console,
    Integration,
    as_scopes,
    make_connection,
    make_integration,
    make_person,
    permissions,
)
from tests.support.configuration import Configure
from tests.support.descriptors import add_entries

SEES = ["keys.view_apikey", "keys.view_person", "directory.read_object"]
HELP_DESK = ["directory.read_object", "directory.disable_account", "directory.reset_password"]
BODIES: dict[str, Any] = {
    "update": {"replace": {"title": "x"}},
    "rename": {"name": "Other"},
    "reset-password": {"newPassword": "Engine-Number-2"},
}


@pytest.fixture
def console(db: None) -> Console:
    return Console(make_person("grace", may=SEES))


def ask(console: Console, target: UUID, resource: str = "users", query: str = "pageSize=1000") -> Answer:
    answer = console.get(f"/rest/ad/{resource}/{target}/who-can?{query}")
    assert answer.status == 200, answer
    return answer


def found_for(answer: Answer, who: Integration | str) -> dict[str, bool]:
    """What a key or a person can do: by action, whether it is held."""
    name = who if isinstance(who, str) else who.key.name
    items = [item for item in answer.body["items"] if item["name"] == name]
    return {action["action"]: action["held"] for item in items for action in item["actions"]}


def test_it_works(
    console: Console, connection: DirectoryConnection, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    held = make_integration(connection, may=HELP_DESK, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    free = make_integration(connection, may=HELP_DESK, scopes=[directory.guid(organizational_unit)])
    person = make_person("helper", may=["directory.enable_account"])
    answer = ask(console, ada)
    assert found_for(answer, held) == {"read": False, "disable": True, "reset-password": True}
    assert found_for(answer, free) == {"read": False, "disable": False, "reset-password": False}
    assert found_for(answer, person.username) == {"enable": False}
    shown = next(item for item in answer.body["items"] if item["name"] == held.key.name)
    assert (shown["kind"], shown["owner"], shown["role"]) == ("apiKey", held.key.owner.username, held.key.role.name)
    assert (shown["id"], shown["supervisionLevel"]) == (str(held.key.id), "ask_destructive_security")
    only = ask(console, ada, query="action=enable").body["items"]
    assert [item["name"] for item in only] == ["helper"]
    assert ask(console, ada, resource="objects").body == answer.body


def test_who_approves_it(
    connection: DirectoryConnection,
    directory: Directory,
    ada: UUID,
    organizational_unit: str,
    console: Console,
    configure: Configure,
) -> None:
    """Whoever may decide and reaches the object; with the keys whose changes they may not decide."""
    decides = "approvals.decide_change"
    owner = make_person("owner", may=[*HELP_DESK, decides])
    key = make_integration(connection, may=HELP_DESK, owner=owner, level=SupervisionLevel.ASK_EVERY_CHANGE).key
    places = {"near": organizational_unit, "far": f"CN=Users,{directory.base_dn}"}
    for name, place in places.items():
        person = make_person(name, may=[decides])
        type(person).objects.filter(pk=person.pk).update(scopes=as_scopes([directory.guid(place)], connection))
    make_person("reader", may=HELP_DESK)
    issuer = Console(make_person("issuer", superuser=True))
    assert issuer.patch(f"/rest/api-keys/{key.id}", {"supervisionLevel": "ask_destructive_security"}).status == 200
    assert issuer.patch(f"/rest/api-keys/{key.id}", {"supervisionLevel": "act"}).status == 200
    body = ask(console, ada).body
    barred = {each["name"]: each["barredKeys"] for each in body["approvers"]}
    assert barred == {"owner": [str(key.id)], "issuer": [str(key.id)], "near": []}
    assert body["approvalsNeeded"] == 1
    assert ask(console, ada, query="action=read").body["approvers"] == [], "a read never waits"
    page = console.get(f"/console/directory/objects/{ada}/who-can").body.decode()
    assert "One of these people has to approve" in page
    assert f"not what {key.name} requests" in page
    configure("Approvals", ProtectedNeedsTwo=True)
    assert ask(console, ada).body["approvalsNeeded"] == 1
    directory.modify(ada, adminCount="1")
    assert ask(console, ada).body["approvalsNeeded"] == 2
    page = console.get(f"/console/directory/objects/{ada}/who-can").body.decode()
    assert "Two of these people have to approve" in page


def test_the_approvers_are_those_who_may_decide(connection: DirectoryConnection, ada: UUID, console: Console) -> None:
    decides = ["approvals.decide_change", "directory.read_object"]
    level = SupervisionLevel.ASK_EVERY_CHANGE
    integration = make_integration(connection, may=HELP_DESK, owner_may=[*HELP_DESK, *decides], level=level)
    people = [make_person("first", may=decides), integration.key.owner]
    said = {each["name"]: each["barredKeys"] for each in ask(console, ada).body["approvers"]}
    for person in people:
        request = integration.post(f"/api/ad/users/{ada}/disable").body["changeRequest"]["id"]
        review = Console(person).get(f"/rest/change-requests/{request}/review").body
        assert review["mayApprove"] is (not said[person.username]), person.username


def trustees(console: Console, target: UUID, query: str = "pageSize=1000") -> dict[tuple[str, str], dict[str, str]]:
    """What trustees can do: by type and name, the actions with what they rest on."""
    found = ask(console, target, query=query).body["trustees"]
    return {
        (each["type"], each["principal"]["name"]): {action["action"]: action["by"] for action in each["actions"]}
        for each in found
    }


@pytest.fixture
def reads_access_control(db: None) -> Console:
    return Console(make_person("ida", may=[*SEES, "directory.read_acl"]))


def test_who_can_in_the_directory_itself(
    reads_access_control: Console,
    connection: DirectoryConnection,
    directory: Directory,
    ada: UUID,
    organizational_unit: str,
) -> None:
    console, names = reads_access_control, ("Resetters", "Editors", "Container", "Denied", "Rulers", "Below")
    groups = {name: directory.add_group(name, parent=organizational_unit) for name in names}
    sids = {name: directory.sid(guid) for name, guid in groups.items()}
    domain_sid = sids["Editors"].rpartition("-")[0]
    reset, title = "00299570-246d-11d0-a768-00aa006e0529", "bf967a55-0de6-11d0-a285-00aa003049e2"
    control = "bf967a68-0de6-11d0-a285-00aa003049e2"  # userAccountControl
    user = "bf967aba-0de6-11d0-a285-00aa003049e2"
    add_entries(
        directory,
        organizational_unit,
        f"(OA;CI;WP;{control};{user};{sids['Editors']})",
        f"(OA;;DC;{user};;{sids['Container']})",
        f"(OA;CIIO;CR;{reset};{user};{sids['Below']})",
        domain_sid=domain_sid,
    )
    add_entries(
        directory,
        ada,
        f"(OD;;CR;{reset};;{sids['Denied']})",
        f"(A;;WDRPCR;;;{sids['Rulers']})",
        f"(OA;;CR;{reset};;{sids['Resetters']})",
        f"(OA;;CR;{reset};;{sids['Denied']})",
        f"(OA;;WP;{title};;{sids['Resetters']})",
        domain_sid=domain_sid,
    )
    found = trustees(console, ada)
    assert found["allow", "Resetters"] == {"update": "explicit", "reset-password": "explicit"}
    assert found["allow", "Editors"] == {"enable": "inherited", "disable": "inherited"}
    assert found["allow", "Container"] == {"delete": "container"}
    assert found["allow", "Rulers"] == {"reset-password": "explicit", "change-access-control": "explicit"}
    assert found["allow", "Below"] == {"reset-password": "inherited"}
    assert found["deny", "Denied"] == {"reset-password": "explicit"}
    assert ("allow", "Denied") not in found, "the first entry about a right decides"
    assert {"update", "delete", "move", "rename", "change-access-control"} <= found["allow", "Domain Admins"].keys()
    body = ask(console, ada).body["trustees"]
    (resetters,) = (each for each in body if each["principal"]["name"] == "Resetters")
    assert resetters["principal"] == {"sid": sids["Resetters"], "name": "Resetters", "id": str(groups["Resetters"])}
    assert [each["attributes"] for each in resetters["actions"]] == [["title"], None]
    only = trustees(console, ada, "action=disable")
    assert only["allow", "Editors"] == {"disable": "inherited"}
    assert only["allow", "Rulers"] == {"change-access-control": "explicit"}, "they can take every right"
    assert ("allow", "Resetters") not in only
    page = " ".join(console.get(f"/console/directory/objects/{ada}/who-can").body.decode().split())
    assert "inherited from above" in page
    assert "given on the container that it is in" in page
    assert f"/console/directory/objects/{groups['Editors']}" in page


@pytest.mark.usefixtures("connection")
def test_it_is_what_the_directory_lets_them(
    reads_access_control: Console, domain: Domain, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    """Somebody with no other right tries it in the directory, before and after an entry that the page shows."""
    helper = directory.add_user("Helper", parent=organizational_unit, password=PASSWORD)
    sid, dn = directory.sid(helper), directory.dn(helper)
    title = "bf967a55-0de6-11d0-a285-00aa003049e2"

    def may_change_title() -> bool:
        theirs = Directory(
            url=domain.url,
            ca_file=str(domain.ca_file),
            bind_dn=dn,
            bind_password=PASSWORD,
            base_dn=directory.base_dn,
        )
        try:
            theirs.modify(ada, title=random_name("title"))
        except ldap.INSUFFICIENT_ACCESS:
            return False
        finally:
            theirs.close()
        return True

    def is_said() -> bool:
        return trustees(reads_access_control, ada).get(("allow", "Helper"), {}).get("update") == "explicit"

    assert (is_said(), may_change_title()) == (False, False)
    add_entries(directory, ada, f"(OA;;WP;{title};;{sid})", domain_sid=sid.rpartition("-")[0])
    assert (is_said(), may_change_title()) == (True, True)
    add_entries(directory, ada, f"(OD;;WP;{title};;WD)", domain_sid=sid.rpartition("-")[0])
    assert (is_said(), may_change_title()) == (False, False)


def test_who_may_not_read_access_control_is_not_told(
    console: Console, connection: DirectoryConnection, ada: UUID
) -> None:
    assert ask(console, ada).body["trustees"] is None
    page = console.get(f"/console/directory/objects/{ada}/who-can").body.decode()
    assert "You may not read access control." in page


def test_who_may_do_nothing_is_left_out(
    console: Console, connection: DirectoryConnection, domain: Domain, directory: Directory, ada: UUID
) -> None:
    elsewhere = directory.guid(f"CN=Users,{directory.base_dn}")
    now = timezone.now()
    others = {
        "scope": make_integration(connection, may=HELP_DESK, scopes=[elsewhere]),
        "revoked": make_integration(connection, may=HELP_DESK, revoked_at=now),
        "expired": make_integration(connection, may=HELP_DESK, expires_at=now),
        "owner": make_integration(connection, may=HELP_DESK, owner_may=[]),
        "unlinked": make_integration(None, may=HELP_DESK),
        "other": make_integration(make_connection(domain, enabled=False), may=HELP_DESK),
        "inactive": make_integration(connection, may=HELP_DESK),
    }
    others["inactive"].key.owner.is_active = False
    others["inactive"].key.owner.save()
    gone = make_person("gone", may=HELP_DESK)
    gone.is_active = False
    gone.save()
    answer = ask(console, ada)
    assert {reason: found_for(answer, key) for reason, key in others.items()} == {reason: {} for reason in others}
    assert found_for(answer, "gone") == {}


def test_a_protected_object(
    console: Console, connection: DirectoryConnection, directory: Directory, ada: UUID, organizational_unit: str
) -> None:
    directory.modify(ada, adminCount="1")
    without = make_integration(connection, may=[*HELP_DESK, "directory.update_user"])
    may = [*HELP_DESK, "directory.update_user", "directory.manage_protected"]
    with_it = make_integration(connection, may=may, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    answer = ask(console, ada)
    assert found_for(answer, without) == {"read": False}
    assert found_for(answer, with_it) == dict.fromkeys(("update", "rename", "disable", "reset-password"), True) | {
        "read": False
    }
    units = ["directory.update_organizationalunit", "directory.delete_organizationalunit", "directory.move_object"]
    of_units = make_integration(connection, may=units)
    unit = directory.guid(organizational_unit)
    assert found_for(ask(console, unit, "organization-units"), of_units).keys() == {"update"}, "it holds one"


@pytest.mark.parametrize("granted", ["directory.disable_account", "directory.update_user", "directory.reset_password"])
def test_the_answer_is_what_happens(console: Console, connection: DirectoryConnection, ada: UUID, granted: str) -> None:
    may = [granted, "directory.read_object"]  # a dry run shows values
    caller = make_integration(connection, may=may, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    said = found_for(ask(console, ada), caller)
    for action in ("update", "rename", "disable", "enable", "unlock", "reset-password"):
        method, path = ("PATCH", "") if action == "update" else ("POST", f"/{action}")
        answer = caller.call(method, f"/api/ad/users/{ada}{path}?dryRun=true", BODIES.get(action))
        assert (answer.status == 200) is (action in said), action
        if answer.status == 200:
            assert answer.body["wouldQueue"] is said[action]


@pytest.mark.parametrize("resource", ["users", "groups", "computers", "organization-units"])
def test_every_change_of_the_registry_is_among_them(
    console: Console, connection: DirectoryConnection, directory: Directory, organizational_unit: str, resource: str
) -> None:
    make = {
        "users": lambda: directory.add_user(parent=organizational_unit),
        "groups": lambda: directory.add_group(parent=organizational_unit),
        "computers": lambda: directory.add_computer(parent=organizational_unit),
        "organization-units": lambda: directory.guid(organizational_unit),
    }
    everything = make_integration(connection)
    changes = {
        item.action
        for item in operations()
        if item.resource == resource and item.effect is Effect.CHANGE and item.path.startswith(f"ad/{resource}/{{id}}")
    }
    assert found_for(ask(console, make[resource](), resource), everything).keys() == {"read", *changes}


def test_service_accounts_count_as_objects(
    console: Console, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    contact = directory.add(f"CN=Contact,{organizational_unit}", {"objectClass": "contact"})
    of_objects = make_integration(connection, may=["directory.update_object"])
    of_users = make_integration(connection, may=["directory.update_user"])
    answer = ask(console, contact, "objects")
    assert found_for(answer, of_objects) == {"update": False, "rename": False}
    assert found_for(answer, of_users) == {}


def test_people(console: Console, connection: DirectoryConnection, domain: Domain, ada: UUID) -> None:
    make_person("chief", superuser=True)
    group = Group.objects.create(name="Help desk")
    group.permissions.set(permissions(["directory.disable_account"]))
    make_person("by-group").groups.add(group)
    other = make_connection(domain)
    for name, own in (("ours", connection), ("theirs", other)):
        person = make_person(name, may=["directory.disable_account"])
        type(person).objects.filter(pk=person.pk).update(connection=own, object_guid=ada)
    answer = console.call("GET", f"/rest/ad/users/{ada}/who-can", **{"X-Client-Id": connection.client_id})
    assert found_for(answer, "by-group") == found_for(answer, "ours") == {"disable": False}
    assert "delete" in found_for(answer, "chief")
    assert found_for(answer, "theirs") == {}


def test_pages(console: Console, connection: DirectoryConnection, ada: UUID) -> None:
    keys = {make_integration(connection, may=HELP_DESK).key.name for _ in range(5)}
    seen: list[str] = []
    query = "pageSize=2&action=disable"
    while True:
        body = ask(console, ada, query=query).body
        seen += [item["name"] for item in body["items"] if item["kind"] == "apiKey"]
        if body["nextCursor"] is None:
            break
        query = f"pageSize=2&action=disable&cursor={body['nextCursor']}"
    assert (len(seen), set(seen)) == (5, keys)
    wrong = console.get(f"/rest/ad/users/{ada}/who-can?action=fly")
    assert (wrong.status, wrong.body["errors"][0]["parameter"]) == (400, "action")


@pytest.mark.parametrize("missing", SEES)
def test_it_needs_to_see_keys_people_and_objects(connection: DirectoryConnection, ada: UUID, missing: str) -> None:
    person = Console(make_person(may=[name for name in SEES if name != missing]))
    assert person.get(f"/rest/ad/users/{ada}/who-can").status == 403
    assert make_integration(connection).get(f"/api/ad/users/{ada}/who-can").status == 404


def test_in_the_console(console: Console, connection: DirectoryConnection, ada: UUID) -> None:
    key = make_integration(connection, may=HELP_DESK, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY).key
    path = f"/console/directory/objects/{ada}"
    assert "Who can" in console.get(path).body.decode()
    page = console.get(f"{path}/who-can").body.decode()
    assert key.name in page
    assert "held" in page
    assert "Show all" in console.get(f"{path}/who-can?action=disable").body.decode()
    reader = Console(make_person(may=["directory.read_object"]))
    assert "Who can" not in reader.get(path).body.decode()
    assert reader.get(f"{path}/who-can").status == 403
