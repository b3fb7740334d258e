"""Listing members of groups and groups of members: nested ones, primary groups, other domains, scopes, many."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

import pytest

from active_directory import Entry, GroupType
from directory.groups.nesting import relative_id
from lab.directory import Directory
from tests.directory.test_streams import CSV, NDJSON, fetch
from tests.support.cast import Console, Integration, all_permissions, make_integration, make_person

MANY = 1700  # more than Windows returns at once
LOCAL = (GroupType.DOMAIN_LOCAL | GroupType.SECURITY_ENABLED).signed
DISTRIBUTION = GroupType.UNIVERSAL.signed


def listed(integration: Integration, path: str, query: str = "") -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    cursor = ""
    while True:
        answer = integration.get(f"/api/ad/{path}?pageSize=1000{query}{cursor}")
        assert answer.status == 200, answer
        found += [item["id"] for item in answer.body["items"]]
        if answer.body["nextCursor"] is None:
            assert answer.body["total"] == len(found)
            return found
        cursor = f"&cursor={answer.body['nextCursor']}"


def ids(guids: Iterable[UUID]) -> list[str]:
    return sorted(map(str, guids))


def primary_group(directory: Directory, account: UUID, group: UUID) -> None:
    """Make a group, of which the account is a member, its primary group: then it is no longer listed."""
    sid = directory.read(group, "objectSid")["objectSid"][0]
    directory.modify(account, primaryGroupID=str(int.from_bytes(sid[-4:], "little")))


class Nest:
    """outer > middle > inner > deepest, each with a user; `first` has middle for a primary group."""

    def __init__(self, directory: Directory, unit: str) -> None:
        self.users = [directory.add_user(f"user {number}", parent=unit) for number in range(4)]
        self.first = directory.add_user("first", parent=unit)
        self.pc = directory.add_computer(parent=unit)
        self.deepest = directory.add_group("deepest", parent=unit, members=[self.users[3], self.pc])
        self.inner = directory.add_group(
            "inner", parent=unit, members=[self.users[2], self.deepest], group_type=DISTRIBUTION
        )
        self.middle = directory.add_group(
            "middle, (with) *", parent=unit, members=[self.users[1], self.inner, self.first]
        )
        self.outer = directory.add_group("outer", parent=unit, members=[self.users[0], self.middle], group_type=LOCAL)
        primary_group(directory, self.first, self.middle)


def test_deleted_members_are_none(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    """With the recycle bin Samba goes on showing them. They are left alone, and come back with their membership."""
    gone, other = (directory.add_user(parent=organizational_unit) for _ in range(2))
    alike = directory.add_user(rf"x\0ADEL:{gone},CN=Deleted Objects,", parent=organizational_unit)
    group = directory.add_group(parent=organizational_unit, members=[gone, other, alike])
    holder = directory.add_group(parent=organizational_unit, members=[group, other])
    report = directory.add_user(parent=organizational_unit, manager=directory.dn(gone))
    directory.delete(gone)
    directory.delete(holder)
    living = sorted(map(directory.dn, (other, alike)))
    path = f"/api/ad/groups/{group}"
    for query in (f"?filter=(cn={directory.text(group, 'cn')})&attributes=member,memberOf", None):
        record = (
            integration.get(f"{path}?attributes=member,memberOf").body
            if query is None
            else integration.get(f"/api/ad/groups{query}").body["items"][0]
        )
        assert record["group"]["memberCount"] == 2
        assert sorted(record["attributes"]["member"]) == living
        assert record["attributes"]["memberOf"] == []
    assert integration.get(f"/api/ad/users/{report}?attributes=*").body["attributes"].get("manager") is None
    replaced = integration.patch(f"{path}?dryRun=true", {"replace": {"member": living}}).body
    assert replaced["changes"] == []
    assert integration.patch(path, {"clear": ["member"]}).status == 200
    assert integration.get(path).body["group"]["memberCount"] == 0
    assert integration.post(f"/api/ad/deleted-objects/{gone}/restore").status == 200
    assert integration.get(f"/api/ad/deleted-objects/{holder}?attributes=member").body["attributes"]["member"]
    assert directory.members(group) == {directory.dn(gone)}


@pytest.fixture
def nest(directory: Directory, organizational_unit: str) -> Any:
    nest = Nest(directory, organizational_unit)
    yield nest
    directory.modify(nest.first, primaryGroupID="513")


def test_members(integration: Integration, nest: Nest) -> None:
    answer = integration.get(f"/api/ad/groups/{nest.middle}/members")
    assert answer.status == 200
    assert sorted(item["id"] for item in answer.body["items"]) == ids([nest.users[1], nest.inner, nest.first])
    assert (answer.body["total"], answer.body["nextCursor"], answer.body["truncated"]) == (3, None, False)
    kinds = {item["id"]: item["kind"] for item in answer.body["items"]}
    assert kinds[str(nest.inner)] == "group"
    assert kinds[str(nest.first)] == "user"
    assert sorted(listed(integration, f"groups/{nest.outer}/members")) == ids([nest.users[0], nest.middle])


def test_nested_members(integration: Integration, nest: Nest) -> None:
    everybody = [*nest.users, nest.first, nest.pc, nest.middle, nest.inner, nest.deepest]
    assert sorted(listed(integration, f"groups/{nest.outer}/members", "&nested=true")) == ids(everybody)
    assert sorted(listed(integration, f"groups/{nest.deepest}/members", "&nested=true")) == ids(
        [nest.users[3], nest.pc]
    )
    users = integration.get(
        f"/api/ad/groups/{nest.outer}/members?nested=true&filter=(sAMAccountType=805306368)&sort=-name&attributes=cn"
    )
    assert [item["name"] for item in users.body["items"]] == ["user 3", "user 2", "user 1", "user 0", "first"]
    assert set(users.body["items"][0]["attributes"]) == {"cn"}


def test_groups(integration: Integration, nest: Nest, directory: Directory) -> None:
    domain_users = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    domain_computers = directory.guid(f"CN=Domain Computers,CN=Users,{directory.base_dn}")
    assert sorted(listed(integration, f"users/{nest.users[1]}/groups")) == ids([nest.middle, domain_users])
    assert sorted(listed(integration, f"users/{nest.first}/groups")) == ids([nest.middle, domain_users])
    assert sorted(listed(integration, f"computers/{nest.pc}/groups")) == ids([nest.deepest, domain_computers])
    assert listed(integration, f"groups/{nest.middle}/groups") == [str(nest.outer)]
    assert listed(integration, f"groups/{nest.outer}/groups") == []


def test_nested_groups(integration: Integration, nest: Nest, directory: Directory) -> None:
    domain_users = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    users = directory.guid(f"CN=Users,CN=Builtin,{directory.base_dn}")  # which holds Domain Users
    above = [nest.deepest, nest.inner, nest.middle, nest.outer]
    nested = "&nested=true"
    assert sorted(listed(integration, f"users/{nest.users[3]}/groups", nested)) == ids([*above, domain_users, users])
    assert sorted(listed(integration, f"groups/{nest.deepest}/groups", nested)) == ids(above[1:])
    # Through the primary group, which no memberOf shows.
    found = listed(integration, f"users/{nest.first}/groups", nested)
    assert sorted(found) == ids([nest.middle, nest.outer, domain_users, users])
    answer = integration.get(f"/api/ad/users/{nest.users[3]}/groups?nested=true&sort=name&filter=(name=i*)")
    assert [item["name"] for item in answer.body["items"]] == ["inner"]


def test_a_cycle_ends(integration: Integration, nest: Nest, directory: Directory) -> None:
    directory.add_values(nest.deepest, member=directory.dn(nest.outer))
    found = listed(integration, f"groups/{nest.inner}/members", "&nested=true")
    assert len(found) == len(set(found)) == 10
    assert sorted(listed(integration, f"groups/{nest.inner}/groups", "&nested=true")) == ids(
        [nest.outer, nest.middle, nest.inner, nest.deepest]
    )


def test_the_groups_of_the_domain(integration: Integration, ada: UUID, directory: Directory) -> None:
    domain_users = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    users = directory.guid(f"CN=Users,CN=Builtin,{directory.base_dn}")
    assert str(ada) in listed(integration, f"groups/{domain_users}/members")
    assert str(ada) not in listed(integration, f"groups/{users}/members")
    assert str(ada) in listed(integration, f"groups/{users}/members", "&nested=true")


def test_a_builtin_group_is_nobody_s_primary_group(directory: Directory) -> None:
    """Its number means another group in the accounts' domain."""
    for name, expected in (("CN=Users,CN=Builtin", None), ("CN=Domain Users,CN=Users", 513)):
        dn = f"{name},{directory.base_dn}"
        assert relative_id(Entry(dn, directory.read(dn, "objectSid"))) == expected


def test_foreigners_have_a_name(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    group = directory.add_group(parent=organizational_unit, group_type=LOCAL)
    directory.add_values(group, member=f"CN=S-1-5-11,CN=ForeignSecurityPrincipals,{directory.base_dn}")
    directory.add_values(group, member=f"<SID=S-1-5-21-1-2-3-{uuid4().int % 2**30}>")
    answer = integration.get(f"/api/ad/groups/{group}/members?sort=name")
    known, unknown = answer.body["items"]
    assert (known["name"], known["kind"]) == ("Authenticated Users", "object")
    assert known["distinguishedName"].startswith("CN=S-1-5-11,CN=ForeignSecurityPrincipals,")
    assert known["objectClass"][-1] == "foreignSecurityPrincipal"
    assert unknown["name"].startswith("S-1-5-21-1-2-3-")


def test_nothing_outside_the_scopes(connection: Any, directory: Directory, organizational_unit: str) -> None:
    inside = directory.add_unit("Inside", parent=organizational_unit)
    member, stranger = directory.add_user(parent=inside), directory.add_user(parent=organizational_unit)
    group = directory.add_group(parent=inside, members=[member, stranger])
    outer = directory.add_group(parent=organizational_unit, members=[group])
    confined = make_integration(connection, scopes=[directory.guid(inside)])
    assert listed(confined, f"groups/{group}/members") == [str(member)]
    assert listed(confined, f"groups/{group}/groups") == []
    assert listed(confined, f"users/{member}/groups", "&nested=true") == [str(group)]
    for path in (f"groups/{outer}/members", f"users/{stranger}/groups"):
        answer = confined.get(f"/api/ad/{path}")
        assert (answer.status, answer.code) == (403, "Auth.Forbidden")


def test_who_is_no_group_has_no_members(integration: Integration, ada: UUID) -> None:
    for path in (f"groups/{ada}/members", f"computers/{ada}/groups", f"groups/{ada}/groups", f"users/{uuid4()}/groups"):
        answer = integration.get(f"/api/ad/{path}")
        assert (answer.status, answer.code) == (404, "AD.Object.NotFound")


def test_bad_queries(integration: Integration, ada: UUID) -> None:
    answer = integration.get(f"/api/ad/users/{ada}/groups?nested=yes")
    assert (answer.status, answer.code) == (400, "Request.Invalid")
    assert answer.body["errors"][0]["parameter"] == "nested"
    assert integration.get(f"/api/ad/users/{ada}/groups?deep=true").code == "Request.UnknownParameter"


def test_a_cursor_belongs_to_its_group(integration: Integration, nest: Nest) -> None:
    cursor = integration.get(f"/api/ad/groups/{nest.middle}/members?pageSize=1").body["nextCursor"]
    for path in (f"groups/{nest.outer}/members?pageSize=1", f"groups/{nest.middle}/members?pageSize=1&nested=true"):
        assert integration.get(f"/api/ad/{path}&cursor={cursor}").code == "Search.CursorInvalid"


def test_the_console_sees_the_same(connection: Any, nest: Nest) -> None:
    console = Console(make_person(may=all_permissions()))
    answer = console.get(f"/rest/ad/groups/{nest.outer}/members?nested=true")
    assert (answer.status, answer.body["total"]) == (200, 9)
    assert console.get(f"/rest/ad/users/{nest.first}/groups").body["total"] == 2


def test_streams(integration: Integration, nest: Nest) -> None:
    page = integration.get(f"/api/ad/groups/{nest.outer}/members?nested=true&sort=name").body["items"]
    lines = fetch(integration, NDJSON, f"groups/{nest.outer}/members", nested="true", sort="name")
    assert lines.records == page
    table = fetch(integration, CSV, f"users/{nest.users[3]}/groups", nested="true", sort="name", attributes="cn")
    assert [row["name"] for row in table.rows][:3] == ["deepest", "Domain Users", "inner"]


def test_thousands_of_members(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    names = directory.add_contacts(MANY, parent=organizational_unit)
    group = directory.add_group(parent=organizational_unit)
    directory.add_values(group, member=names)
    found = listed(integration, f"groups/{group}/members")
    assert len(found) == len(set(found)) == MANY
    record = integration.get(f"/api/ad/groups/{group}?attributes=member").body
    assert record["group"]["memberCount"] == len(set(record["attributes"]["member"])) == MANY
