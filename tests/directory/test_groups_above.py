"""The groups above an object are those of this moment."""

from typing import Any
from uuid import UUID

import pytest

from active_directory import Client
from directory.groups import MEMBERSHIP_ATTRIBUTES, groups_above
from lab.directory import Directory


@pytest.fixture
def searches(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The filters of the searches made so far; the searches are made all the same."""
    made: list[object] = []
    search = client.search

    def recording(base: Any, scope: Any, filter: Any, *rest: Any, **named: Any) -> Any:
        made.append(filter)
        return search(base, scope, filter, *rest, **named)

    monkeypatch.setattr(client, "search", recording)
    return made


def above(client: Client, guid: UUID) -> dict[str, tuple[str, ...]]:
    """The names of the groups above an object other than those of everybody, each with the way to it."""
    found = groups_above(client, client.read(guid, MEMBERSHIP_ATTRIBUTES))
    return {group.dn: way for group, way in found if "Users" not in group.dn}


def nest(directory: Directory, organizational_unit: str, *, depth: int) -> tuple[UUID, list[str]]:
    """A user in a group in a group, and so on; the user, and the names of the groups from the nearest one."""
    user = inner = directory.add_user(parent=organizational_unit)
    groups = []
    for _ in range(depth):
        inner = directory.add_group(parent=organizational_unit, members=[inner])
        groups.append(directory.dn(inner))
    return user, groups


def test_one_search_finds_a_level(
    client: Client, directory: Directory, organizational_unit: str, searches: list[object]
) -> None:
    user, groups = nest(directory, organizational_unit, depth=4)
    expected = {group: tuple(groups[:number]) for number, group in enumerate(groups)}
    assert above(client, user) == expected
    assert len(searches) == 4


def test_a_group_that_was_above_is_not_any_more(client: Client, directory: Directory, organizational_unit: str) -> None:
    user, groups = nest(directory, organizational_unit, depth=3)
    assert list(above(client, user)) == groups
    directory.remove_values(groups[1], member=groups[0])
    assert list(above(client, user)) == groups[:1]


def test_a_group_comes_above_one_that_is_known(client: Client, directory: Directory, organizational_unit: str) -> None:
    user, groups = nest(directory, organizational_unit, depth=2)
    assert list(above(client, user)) == groups
    inner = directory.add_group(parent=organizational_unit, members=[directory.guid(groups[1])])
    outer = directory.dn(directory.add_group(parent=organizational_unit, members=[inner]))
    assert above(client, user)[outer] == (*groups, directory.dn(inner))


def test_a_name_that_was_above_belongs_to_another_group_now(
    client: Client, directory: Directory, organizational_unit: str
) -> None:
    user, groups = nest(directory, organizational_unit, depth=2)
    assert list(above(client, user)) == groups
    outer = directory.guid(groups[1])
    directory.rename(outer, "Another Name")
    taken = directory.add_group(groups[1].partition(",")[0][3:], parent=organizational_unit)
    assert directory.dn(taken) == groups[1]
    assert list(above(client, user)) == [groups[0], directory.dn(outer)]


def test_each_comes_once_by_the_shortest_way(client: Client, directory: Directory, organizational_unit: str) -> None:
    user, groups = nest(directory, organizational_unit, depth=3)
    directory.add_values(groups[2], member=directory.dn(user))
    directory.add_values(groups[0], member=groups[2])
    found = list(groups_above(client, client.read(user, MEMBERSHIP_ATTRIBUTES)))
    assert len({group.dn for group, _ in found}) == len(found)
    assert above(client, user) == {groups[0]: (), groups[2]: (), groups[1]: (groups[0],)}


def test_the_primary_group_is_one_of_them(
    client: Client, directory: Directory, organizational_unit: str, searches: list[object]
) -> None:
    user = directory.add_user(parent=organizational_unit)
    everybody = f"CN=Domain Users,CN=Users,{directory.base_dn}"
    ways = {group.dn: way for group, way in groups_above(client, client.read(user, MEMBERSHIP_ATTRIBUTES))}
    assert ways == {everybody: (), f"CN=Users,CN=Builtin,{directory.base_dn}": (everybody,)}
    assert len(searches) == 2
