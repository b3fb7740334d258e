"""Who was a member is remembered, and known to be out of date as soon as it is."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest

from active_directory import client as client_module
from active_directory.filters import escape
from active_directory.streaming import Query
from directory.queries.searches import known_members
from lab.directory import Directory
from tests.directory.queries.test_member_lists import listed
from tests.support.cast import Integration, make_integration


def test_known_members_are_those_of_now(
    integration: Integration,
    connection: Any,
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who was a member is only remembered while the group names the same members, and what is a user for good."""
    monkeypatch.setattr(known_members, "_MANY", 1)
    inside, outside = (directory.add_unit(name, parent=organizational_unit) for name in ("Inside", "Outside"))
    people = [directory.add_user(f"member {number}", parent=inside) for number in range(5)]
    machine = directory.add_computer(parent=inside)
    group = directory.add_group(parent=inside, members=[*people, machine])
    users = "&" + urlencode({"filter": f"(memberOf={escape(directory.dn(group))})"})
    confined = make_integration(connection, scopes=[directory.guid(inside)])
    extended: list[bool] = []
    looked_at: list[int] = []

    class Listening(Query):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            if self.attributes == [*known_members._ATTRIBUTES]:
                extended.append(self.has_extended_names)
            elif self.attributes == ["objectGUID"] and "(objectClass=user)" in self.filter:
                looked_at.append(self.filter.count("(objectGUID="))

    monkeypatch.setattr(client_module, "Query", Listening)

    def expect(*members: UUID, seen: Iterable[UUID] | None = None, again: bool = True) -> None:
        extended.clear()
        assert listed(integration, f"groups/{group}/members", size=2) == ids([*members, machine])
        assert any(extended) is again
        assert listed(integration, "users", users, size=2) == ids(members)
        extended.clear()
        looked_at.clear()
        assert listed(integration, f"groups/{group}/members", size=2) == ids([*members, machine])
        assert listed(integration, "users", users, size=2) == ids(members)
        assert (extended, looked_at) == ([False] * 2, [1])
        among = members if seen is None else seen
        assert listed(confined, f"groups/{group}/members", size=1) == ids([*among, machine])
        assert listed(confined, "users", users, size=1) == ids(among)

    def ids(guids: Iterable[UUID]) -> list[str]:
        return [str(guid) for guid in sorted(guids, key=lambda guid: guid.bytes_le)]

    first, second, third, fourth, fifth = people
    expect(*people)
    directory.remove_values(group, member=directory.dn(first))
    expect(*people[1:])
    directory.move(second, parent=outside)
    expect(*people[1:], seen=people[2:])
    name = directory.dn(third)
    directory.delete(third)
    expect(second, fourth, fifth, seen=(fourth, fifth))
    heir = directory.add_user(name.partition(",")[0].partition("=")[2], parent=inside)
    assert directory.dn(heir) == name
    expect(second, fourth, fifth, seen=(fourth, fifth), again=False)
    directory.add_values(group, member=name)
    expect(second, fourth, fifth, heir, seen=(fourth, fifth, heir))
