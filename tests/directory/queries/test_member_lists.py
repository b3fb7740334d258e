"""Listing members of groups and groups of members: nested ones, primary groups, other domains, scopes, many."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import ldap
import pytest

from active_directory import ANYTHING, IN_CHAIN, Client, Entry, GroupType, Scope
from active_directory import client as client_module
from active_directory.filters import escape
from active_directory.streaming import Query
from core.call import Call, SupervisionLevel
from directory.groups import relative_id
from directory.queries import member_counts
from directory.queries.searches import chains, search
from directory.queries.searches.listed import name_filter
from lab.directory import Directory, random_name
from tests.directory.test_streams import CSV, NDJSON, fetch
from tests.support.cast import Console, Integration, all_permissions, make_integration, make_person
from tests.support.domains import renew_domains

MANY = 1700  # more than Windows returns at once
LOCAL = (GroupType.DOMAIN_LOCAL | GroupType.SECURITY_ENABLED).signed
DISTRIBUTION = GroupType.UNIVERSAL.signed


def listed(integration: Integration, path: str, query: str = "", *, size: int = 1000) -> list[str]:
    """The ids of all pages."""
    found: list[str] = []
    cursor = ""
    while True:
        answer = integration.get(f"/api/ad/{path}?pageSize={size}{query}{cursor}")
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
        self.groups = [self.outer, self.middle, self.inner, self.deepest]
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


def test_nested_members(
    integration: Integration, nest: Nest, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = [*nest.users, nest.first, nest.pc, nest.middle, nest.inner, nest.deepest]
    chain = urlencode({"filter": f"(memberOf:{IN_CHAIN}:={directory.dn(nest.outer)})"})
    for is_samba in (True, False):  # Windows has an index for `memberOf`
        for module in ("member_lists", "searches.chains"):
            monkeypatch.setattr(f"directory.queries.{module}.is_samba", lambda _, answer=is_samba: answer)
        assert sorted(listed(integration, f"groups/{nest.outer}/members", "&nested=true")) == ids(everybody)
        assert sorted(listed(integration, "objects", f"&{chain}")) == ids(everybody)
    assert sorted(listed(integration, f"groups/{nest.deepest}/members", "&nested=true")) == ids(
        [nest.users[3], nest.pc]
    )
    users = integration.get(
        f"/api/ad/groups/{nest.outer}/members?nested=true&filter=(sAMAccountType=805306368)&sort=-name&attributes=cn"
    )
    assert [item["name"] for item in users.body["items"]] == ["user 3", "user 2", "user 1", "user 0", "first"]
    assert set(users.body["items"][0]["attributes"]) == {"cn"}


def test_the_count_is_that_of_the_list(
    integration: Integration, nest: Nest, directory: Directory, connection: Any
) -> None:
    """In a read, in a list, and where a caller sees a part: primary members count, and nested ones do not."""

    def told(caller: Integration, group: UUID) -> set[int]:
        base = {"filter": f"(sAMAccountName={directory.text(group, 'sAMAccountName')})"}
        records = [caller.get(f"/api/ad/groups/{group}").body]
        records += caller.get(f"/api/ad/groups?{urlencode(base)}").body["items"]
        records += fetch(caller, NDJSON, "groups", **base).records
        total = caller.get(f"/api/ad/groups/{group}/members?pageSize=1").body["total"]
        assert len(records) == 3
        return {total, *(record["group"]["memberCount"] for record in records)}

    domain_users = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    assert told(integration, nest.middle) == {3}
    (everybody,) = told(integration, domain_users)
    assert everybody >= len(nest.users)
    confined = make_integration(connection, scopes=[nest.middle, nest.first, nest.users[1]])
    assert told(confined, nest.middle) == {2}  # not `inner`

    asking = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    assert asking.post(f"/api/ad/groups/{nest.middle}/members", {"add": [str(nest.users[0])]}).status == 202
    (line,) = Console(make_person(superuser=True)).get("/rest/change-requests/inbox").body["items"]
    assert line["first"][0]["unlisted"] == {"member": 3}


def test_a_large_primary_group_is_not_counted_at_every_read(
    integration: Integration, nest: Nest, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_counts, "_MANY", 0)

    def count(group: UUID) -> int:
        number: int = integration.get(f"/api/ad/groups/{group}").body["group"]["memberCount"]
        return number

    assert count(nest.middle) == 3
    primary_group(directory, nest.first, directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}"))
    assert count(nest.middle) == 4, "it is in `member` now, and still counted as the account that it was"
    monkeypatch.setattr(member_counts, "_MAX_AGE", 0)
    assert count(nest.middle) == 3


@pytest.mark.parametrize("few", [2, 0], ids=["by name", "listed"])
@pytest.mark.parametrize("most", [1000, 0], ids=["few members", "many members"])
def test_chains_of_memberships_are_followed(
    integration: Integration,
    nest: Nest,
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    most: int,
) -> None:
    """In every place of a filter, however many groups and members there are; primary groups count."""
    monkeypatch.setattr(chains, "_FEW_GROUPS", few)
    monkeypatch.setattr(chains, "_MAX_LISTED", most)
    turns: list[bool] = []

    @contextmanager
    def take_turn(_: Call, *, expensive: bool) -> Iterator[None]:
        turns.append(expensive)
        yield

    monkeypatch.setattr(search, "search_turn", take_turn)

    def found(filter: str, resource: str = "objects") -> list[str]:
        query = urlencode({"filter": filter, "base": organizational_unit})
        matches = sorted(listed(integration, resource, f"&{query}"))
        counted = integration.get(f"/api/ad/objects/count?kind={resource}&{query}")
        assert counted.body["total"] == len(matches)
        return matches

    unit = directory.guid(organizational_unit)
    outer, middle, inner = (f"memberOf:{IN_CHAIN}:={escape(directory.dn(group))}" for group in nest.groups[:3])
    below_middle = {*nest.users[1:], nest.first, nest.pc, nest.inner, nest.deepest}
    assert found(f"({outer})") == ids({*below_middle, nest.users[0], nest.middle})
    assert not turns[0], "to follow a chain takes a turn, even where few objects are then looked at"
    assert found(f"({middle})") == ids(below_middle)
    assert found(f"({middle})", "users") == ids({*nest.users[1:], nest.first})
    assert found(f"(&({outer})(!({middle})))") == ids([nest.users[0], nest.middle])
    assert found(f"(|({inner})(cn=user 0))") == ids([*nest.users[2:], nest.pc, nest.deepest, nest.users[0]])
    assert found(f"(|(!({outer}))(cn=user 0))") == ids([unit, nest.outer, nest.users[0]])
    above = f"(member:{IN_CHAIN}:={escape(directory.dn(nest.users[2]))})"
    assert found(above) == ids([nest.outer, nest.middle, nest.inner])
    assert found(f"(&(objectClass=group)(!{above}))") == ids([nest.deepest])
    assert found(f"(member:{IN_CHAIN}:={escape(directory.dn(nest.first))})") == ids([nest.outer, nest.middle])


def test_a_chain_that_cannot_be_followed_here_names_the_setting(
    integration: Integration, nest: Nest, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(*_: Any) -> Iterator[Entry]:
        raise ldap.TIMELIMIT_EXCEEDED({"result": 3, "desc": "Time limit exceeded"})

    filter = f"(manager:{IN_CHAIN}:={directory.dn(nest.users[0])})"
    assert integration.get(f"/api/ad/users?{urlencode({'filter': filter})}").body["items"] == []
    assert integration.get(f"/api/ad/users/{nest.users[0]}").status == 200, "it reads what protection needs"
    monkeypatch.setattr(client_module, "stream", too_long)
    answer = integration.get(f"/api/ad/users?{urlencode({'filter': filter})}")
    assert (answer.status, answer.code) == (400, "AD.Filter.TooCostly")
    assert answer.body["errors"][0]["parameter"] == "filter"
    assert "Searches:ExpensiveSeconds" in answer.body["detail"]


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


def test_lists_are_read_from_links(
    integration: Integration, nest: Nest, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is looked for in the whole domain, however a list is filtered, sorted and confined to a place."""
    inside = directory.add_unit("Inside", parent=directory.dn(nest.outer).partition(",")[2])
    there = directory.add_user("there", parent=inside, department="Sales")
    directory.add_values(nest.middle, member=directory.dn(there))
    integration.get(f"/api/ad/groups/{nest.middle}")
    asked: list[str] = []

    class Listening(Query):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if self.scope is Scope.SUBTREE:
                asked.append(self.filter)

    monkeypatch.setattr(client_module, "Query", Listening)
    members, nested = (f"groups/{nest.middle}/members", ""), (f"groups/{nest.outer}/members", "&nested=true")
    written = urlencode({"filter": f"(memberOf={escape(directory.dn(nest.middle))})"})
    chain = urlencode({"filter": f"(memberOf:{IN_CHAIN}:={escape(directory.dn(nest.outer))})"})
    for path, query in (members, nested, ("users", f"&{written}"), ("objects", f"&{chain}")):
        place = urlencode({"base": inside})
        assert str(nest.users[1]) in listed(integration, path, query)
        for condition in ("department=Sales", place, f"{place}&scope=one-level", f"{place}&sort=-cn&department=Sales"):
            assert listed(integration, path, f"{query}&{condition}") == [str(there)]
        assert listed(integration, path, f"{query}&{urlencode({'base': directory.dn(nest.outer)})}") == []
        answer = integration.get(f"/api/ad/{path}?pageSize=1&sort=-cn{query}")
        assert answer.body["items"][0]["name"].startswith("user")
        second = integration.get(f"/api/ad/{path}?pageSize=1&sort=-cn{query}&cursor={answer.body['nextCursor']}")
        assert second.body["total"] == answer.body["total"] > 1
    of_lists = [filter for filter in asked if "Sales" in filter or "objectGUID" in filter]
    assert of_lists
    assert all("(objectGUID=" in filter for filter in of_lists)
    assert not {filter for filter in asked if filter == str(ANYTHING) or directory.dn(nest.middle) in filter}


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


def test_members_of_a_child_domain_are_not_here(client: Client) -> None:
    is_here = name_filter(client)
    domain = client.default_naming_context
    assert is_here(f"CN=Ada,CN=Users,{domain}")
    assert not is_here(f"CN=Ada,CN=Users,DC=child,{domain}")


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


@pytest.fixture
def unit_of_thousands(directory: Directory) -> Iterator[str]:
    """Removed with its domain: deleting each member of a large group takes longer than the whole test."""
    yield directory.add_unit(random_name("thousands"))
    renew_domains(after=MANY)


def test_thousands_of_members(integration: Integration, directory: Directory, unit_of_thousands: str) -> None:
    names = directory.add_contacts(MANY, parent=unit_of_thousands)
    group = directory.add_group(parent=unit_of_thousands)
    directory.add_values(group, member=names)
    found = listed(integration, f"groups/{group}/members")
    assert len(found) == len(set(found)) == MANY
    record = integration.get(f"/api/ad/groups/{group}?attributes=member").body
    assert record["group"]["memberCount"] == len(set(record["attributes"]["member"])) == MANY
