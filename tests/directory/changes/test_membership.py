"""Adding members to groups and removing them: what is done, what is refused, and what the log says."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from active_directory import GroupType
from core.call import SupervisionLevel
from lab.directory import Directory
from lab.proxy import FaultyProxy
from tests.directory.members import change, counts, records
from tests.directory.supervised import approve
from tests.support.cast import (
    Console,
    Integration,
    all_permissions,
    make_integration,
    make_person,
)
from tests.support.mishaps import just_before_the_write, lose_the_answer

SECURITY = GroupType.SECURITY_ENABLED


@pytest.fixture
def group(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group("Analysts", parent=organizational_unit)


@pytest.fixture
def people(directory: Directory, organizational_unit: str, ada: UUID) -> list[UUID]:
    """Ada and three with names that need escapes."""
    names = ("Babbage, Charles", 'Byron "Lord" #1 + 2', "Übung\\Ωμέγα ")
    return [ada, *(directory.add_user(name, parent=organizational_unit) for name in names)]


def test_it_works(integration: Integration, group: UUID, people: list[UUID], directory: Directory) -> None:
    answer = change(integration, group, add=people)
    assert (answer.status, answer.body) == (200, counts(added=4)), answer.body
    assert directory.members(group) == {directory.dn(guid) for guid in people}
    answer = change(integration, group, add=[people[0]], remove=people[1:3])
    assert (answer.status, answer.body) == (200, counts(removed=2, unchanged=1))
    assert directory.members(group) == {directory.dn(people[0]), directory.dn(people[3])}
    first, second = records()
    assert (first.operation, first.outcome, first.target_id) == ("groups.change-members", "succeeded", group)
    assert first.changes == [{"attribute": "member", "before": [], "after": [directory.dn(guid) for guid in people]}]
    assert second.changes == [
        {"attribute": "member", "before": [directory.dn(guid) for guid in people[1:3]], "after": []}
    ]


def test_both_at_once_in_the_console(connection: Any, group: UUID, people: list[UUID], directory: Directory) -> None:
    directory.add_values(group, member=directory.dn(people[0]))
    console = Console(make_person(may=all_permissions()))
    answer = change(console, group, add=people[1:], remove=[people[0]])
    assert (answer.status, answer.body) == (200, counts(added=3, removed=1))
    assert directory.members(group) == {directory.dn(guid) for guid in people[1:]}


def test_nothing_to_do_is_no_change(integration: Integration, group: UUID, people: list[UUID]) -> None:
    assert change(integration, group, add=people).status == 200
    answer = change(integration, group, add=[people[0], str(people[0]).upper(), people[1]])
    assert (answer.status, answer.body) == (200, counts(unchanged=2))
    answer = change(integration, group, remove=[group])
    assert (answer.status, answer.body) == (200, counts(unchanged=1))
    assert integration.post(f"/api/ad/groups/{group}/members", {}).body == counts()
    assert len(records()) == 1


@pytest.mark.parametrize(
    ("body", "code", "pointer"),
    [
        ({"add": ["ada"]}, "Request.Invalid", "#/add/0"),
        ({"add": [str(uuid4()), "CN=Ada,DC=corp"]}, "Request.Invalid", "#/add/1"),
        ({"remove": [5]}, "Request.Invalid", "#/remove/0"),
        ({"add": str(uuid4())}, "Request.Invalid", "#/add"),
        ({"add": None}, "Request.Invalid", "#/add"),
        ({"members": []}, "Request.UnknownMember", "#/members"),
        ({"add": [str(uuid4()) for _ in range(1001)]}, "AD.Attributes.TooManyValues", "#/add"),
        ({"remove": [str(UUID(int=7))] * 1001}, "AD.Attributes.TooManyValues", "#/remove"),
        ({"add": [str(UUID(int=7))], "remove": [str(UUID(int=7))]}, "Request.Invalid", "#/remove/0"),
        ({"add": [str(UUID(int=7))] * 1000}, "AD.Object.NotFound", "#/add/0"),
    ],
)
def test_bad_input_is_named(
    integration: Integration, group: UUID, directory: Directory, body: Any, code: str, pointer: str
) -> None:
    answer = integration.post(f"/api/ad/groups/{group}/members", body)
    assert (answer.status, answer.code) == (404 if code == "AD.Object.NotFound" else 400, code)
    assert [item["pointer"] for item in answer.body["errors"]] == [pointer]
    assert directory.members(group) == set()


def test_who_does_not_exist_is_named(
    integration: Integration, group: UUID, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    gone = directory.add_user(parent=organizational_unit)
    directory.delete(gone)
    elsewhere = directory.guid(f"CN=Partitions,CN=Configuration,{directory.base_dn}")
    for stranger in (uuid4(), gone, elsewhere):
        for lists in ({"add": [ada, stranger]}, {"add": [ada], "remove": [stranger]}):
            answer = change(integration, group, **lists)
            assert (answer.status, answer.code) == (404, "AD.Object.NotFound")
            assert str(stranger) in answer.body["detail"]
    assert change(integration, ada, add=[group]).code == "AD.Object.NotFound"
    assert change(integration, uuid4(), add=[ada]).code == "AD.Object.NotFound"
    assert directory.members(group) == set()


def test_foreign_principals(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    everyone = directory.guid(f"CN=S-1-5-11,CN=ForeignSecurityPrincipals,{directory.base_dn}")
    local = directory.add_group(parent=organizational_unit, group_type=(GroupType.DOMAIN_LOCAL | SECURITY).signed)
    assert change(integration, local, add=[everyone]).body == counts(added=1)
    assert change(integration, local, remove=[everyone]).body == counts(removed=1)
    anywhere = directory.add_group(parent=organizational_unit, group_type=(GroupType.UNIVERSAL | SECURITY).signed)
    assert change(integration, anywhere, add=[everyone]).status == 422


def test_the_primary_group(integration: Integration, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    domain_users = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    assert change(integration, domain_users, add=[ada]).body == counts(unchanged=1)
    answer = change(integration, domain_users, remove=[ada])
    assert (answer.status, answer.code) == (409, "AD.Group.PrimaryGroup")
    assert answer.body["errors"][0]["pointer"] == "#/remove/0"
    # an update is judged by the same rule.
    assert integration.patch(f"/api/ad/groups/{domain_users}", {"add": {"member": directory.dn(ada)}}).status == 200
    assert [record.operation for record in records()] == ["groups.change-members"], "the refusal"
    contact = directory.add_contacts(1, parent=organizational_unit)[0]
    update = {"add": {"member": [directory.dn(ada), contact]}}
    assert integration.patch(f"/api/ad/groups/{domain_users}", update).status == 200
    assert records()[-1].changes == [{"attribute": "member", "before": [], "after": [contact]}]
    assert directory.members(domain_users) & {directory.dn(ada), contact} == {contact}
    # Where it is not any more the primary group, it is left like any other.
    other = directory.add_group(parent=organizational_unit, members=[ada])
    sid = directory.read(other, "objectSid")["objectSid"][0]
    directory.modify(ada, primaryGroupID=str(int.from_bytes(sid[-4:], "little")))
    assert change(integration, domain_users, remove=[ada]).body == counts(removed=1)
    assert change(integration, other, remove=[ada]).code == "AD.Group.PrimaryGroup"
    assert change(integration, domain_users, add=[ada]).body == counts(added=1)
    directory.modify(ada, primaryGroupID="513")


def test_permissions(connection: Any, group: UUID, ada: UUID, directory: Directory) -> None:
    without = make_integration(connection, may=set(all_permissions()) - {"directory.manage_membership"})
    assert (change(without, group, add=[ada]).status, change(without, uuid4(), add=["no"]).status) == (403, 403)
    alone = make_integration(connection, may=["directory.manage_membership"])
    assert change(alone, group, add=[ada]).body == counts(added=1)
    assert directory.members(group) == {directory.dn(ada)}


def test_scopes_of_the_caller(connection: Any, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    inside = directory.add_unit("Inside", parent=organizational_unit)
    member = directory.add_user(parent=inside)
    group = directory.add_group(parent=inside, members=[ada])
    outer = directory.add_group(parent=organizational_unit)
    confined = make_integration(connection, scopes=[directory.guid(inside)])
    for target, lists in (
        (group, {"add": [member, ada]}),
        (group, {"remove": [ada]}),
        (group, {"add": [outer]}),
        (outer, {"add": [member]}),
    ):
        answer = change(confined, target, **lists)
        assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert directory.members(group) == {directory.dn(ada)}
    assert change(confined, group, add=[member]).body == counts(added=1)


def test_protected_groups(connection: Any, ada: UUID, directory: Directory, organizational_unit: str) -> None:
    ordinary = make_integration(connection, may=set(all_permissions()) - {"directory.manage_protected"})
    anybody = make_integration(connection)
    operators = directory.guid(f"CN=Print Operators,CN=Builtin,{directory.base_dn}")
    inner = directory.add_group(parent=organizational_unit)
    outer = directory.add_group(parent=organizational_unit, members=[inner])
    assert change(ordinary, operators, add=[ada]).status == 403
    assert change(ordinary, inner, add=[ada]).body == counts(added=1)
    assert change(anybody, operators, add=[outer]).body == counts(added=1)
    try:
        # Whoever may fill a group that is nested in it, may fill it.
        assert change(ordinary, inner, remove=[ada]).status == 403
        answer = change(anybody, inner, remove=[ada], query="?dryRun=true")
        assert (answer.status, answer.body["risk"]) == (200, "security")
    finally:
        assert change(anybody, operators, remove=[outer]).body == counts(removed=1)
    assert change(ordinary, inner, remove=[ada]).body == counts(removed=1)


def test_dry_run_says_what_the_log_would(
    connection: Any, group: UUID, people: list[UUID], directory: Directory
) -> None:
    directory.add_values(group, member=[directory.dn(people[0]), directory.dn(people[3])])
    asking = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    adds, removes = "it adds members to the group", "it removes members from the group"
    for lists, risk, why, before, after in (
        ({"add": people, "remove": []}, "security", adds, [], people[1:3]),
        ({"remove": people}, "destructive", removes, [people[0], people[3]], []),
        ({"add": people[1:], "remove": people[:1]}, "security", adds, people[:1], people[1:3]),
    ):
        answer = change(asking, group, **lists, query="?dryRun=true")
        assert answer.body == {
            "dryRun": True,
            "wouldQueue": True,
            "risk": risk,
            "changes": [{"attribute": "member", "before": names(directory, before), "after": names(directory, after)}],
            "warnings": [f"This is a {risk} change: {why}."],
        }
    nothing = change(asking, group, add=people[:1], query="?dryRun=true").body
    assert (nothing["wouldQueue"], nothing["changes"]) == (False, [])
    assert change(asking, group, add=people[:1]).body == counts(unchanged=1)
    assert len(directory.members(group)) == 2
    assert records() == []


def names(directory: Directory, guids: list[UUID]) -> list[str]:
    return [directory.dn(guid) for guid in guids]


def test_a_held_change_is_applied_when_approved(
    connection: Any, group: UUID, people: list[UUID], directory: Directory
) -> None:
    directory.add_values(group, member=directory.dn(people[0]))
    asking = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    held = change(asking, group, add=people[1:], remove=people[:1])
    assert held.body["changeRequest"]["risk"] == "security"
    assert directory.members(group) == {directory.dn(people[0])}
    request = asking.get(held.headers["Location"]).body
    assert request["changes"] == [
        {"attribute": "member", "current": names(directory, people[:1]), "proposed": names(directory, people[1:])}
    ]
    assert approve(held).status == "applied"
    assert directory.members(group) == set(names(directory, people[1:]))


def test_a_held_change_that_others_began_is_stale(
    connection: Any, group: UUID, people: list[UUID], directory: Directory
) -> None:
    asking = make_integration(connection, level=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY)
    held = change(asking, group, add=people)
    directory.add_values(group, member=directory.dn(people[0]))
    assert approve(held).status == "stale"
    assert directory.members(group) == {directory.dn(people[0])}


def test_if_match(integration: Integration, group: UUID, people: list[UUID]) -> None:
    version = integration.get(f"/api/ad/groups/{group}").headers["ETag"]
    assert change(integration, group, add=people[:1], If_Match=version).body == counts(added=1)
    answer = change(integration, group, add=people[1:], If_Match=version)
    assert (answer.status, answer.code) == (412, "AD.Object.VersionMismatch")
    assert integration.get(f"/api/ad/groups/{group}").headers["ETag"] != version


@pytest.mark.parametrize("action", ["add", "remove"])
def test_a_lost_race_ends_as_unchanged(
    integration: Integration,
    group: UUID,
    people: list[UUID],
    directory: Directory,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    """Between proposal and write somebody else does a part of it: the domain controller refuses the whole modify."""
    if action == "remove":
        directory.add_values(group, member=names(directory, people))
    happens = directory.add_values if action == "add" else directory.remove_values
    just_before_the_write(monkeypatch, lambda: happens(group, member=directory.dn(people[1])))
    answer = change(integration, group, **{action: people})
    expected = counts(added=3, unchanged=1) if action == "add" else counts(removed=3, unchanged=1)
    assert (answer.status, answer.body) == (200, expected)
    assert len(directory.members(group)) == (4 if action == "add" else 0)
    assert [(record.outcome, record.code) for record in records()] == [
        ("failed", "AD.Object.VersionMismatch"),
        ("succeeded", None),
    ]


@pytest.mark.parametrize("action", ["add", "remove"])
def test_a_member_renamed_meanwhile(
    integration: Integration,
    group: UUID,
    people: list[UUID],
    directory: Directory,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    if action == "remove":
        directory.add_values(group, member=names(directory, people))
    just_before_the_write(monkeypatch, lambda: directory.rename(people[1], "Somebody else"))
    expected = counts(added=4) if action == "add" else counts(removed=4)
    assert change(integration, group, **{action: people}).body == expected
    assert len(directory.members(group)) == (4 if action == "add" else 0)


def test_a_lost_answer_is_looked_up(
    through_proxy: Integration,
    directory_proxy: FaultyProxy,
    group: UUID,
    people: list[UUID],
    directory: Directory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory.add_values(group, member=directory.dn(people[0]))
    assert through_proxy.get(f"/api/ad/groups/{group}").status == 200
    lose_the_answer(monkeypatch, directory_proxy)
    answer = change(through_proxy, group, add=people[1:], remove=people[:1])
    assert (answer.status, answer.body) == (200, counts(added=3, removed=1))
    assert [record.outcome for record in records()] == ["succeeded"]
    assert directory.members(group) == set(names(directory, people[1:]))


def test_a_thousand_at_once(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    members = directory.add_contacts(1000, parent=organizational_unit)
    guids = [str(directory.guid(dn)) for dn in members]
    group = directory.add_group(parent=organizational_unit)
    stranger = uuid4()
    absent = change(integration, group, add=[*guids, stranger][1:])
    assert (absent.code, absent.body["errors"][0]["pointer"]) == ("AD.Object.NotFound", "#/add/999")
    assert change(integration, group, add=guids).body == counts(added=1000)
    assert directory.members(group) == set(members)
    assert change(integration, group, add=guids).body == counts(unchanged=1000)
    assert change(integration, group, remove=guids).body == counts(removed=1000)
    assert directory.members(group) == set()
