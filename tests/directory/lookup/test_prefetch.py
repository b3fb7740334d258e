"""What calls that are prepared together read at once, and that none of it outlives their preparation."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from active_directory import Client, Entry
from core.call import Call, Surface
from directory.lookup.access import find_object, scope_bases
from directory.lookup.prefetch import Prefetches, prefetch_of
from directory.models import DirectoryConnection
from keys.permissions.effective import call_for_key
from lab.directory import Directory
from tests.support.cast import make_integration


@pytest.fixture
def confined(connection: DirectoryConnection, directory: Directory, organizational_unit: str) -> Call:
    """A call that is confined to the unit."""
    key = make_integration(connection, scopes=[directory.guid(organizational_unit)]).key
    return call_for_key(key.id, connection_id=connection.id, surface=Surface.API, request_id="test")


def test_objects_and_scopes_are_read_once(
    confined: Call, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [directory.add_user(parent=organizational_unit, title="before") for _ in range(3)]
    asked: list[object] = []
    read, read_many = Client.read, Client.read_many

    def read_one(client: Client, name: Any, *what: Any, **how: Any) -> Entry:
        asked.append(name)
        return read(client, name, *what, **how)

    def read_all(client: Client, guids: Collection[UUID], *what: Any, **how: Any) -> dict[UUID, Entry]:
        asked.append(set(guids))
        return read_many(client, guids, *what, **how)

    monkeypatch.setattr(Client, "read", read_one)
    monkeypatch.setattr(Client, "read_many", read_all)
    with Prefetches().of(some) as prefetch:
        call = replace(confined, prefetch=prefetch)
        for guid in some:
            assert find_object(call, guid, attributes=("title",)).text("title") == "before"
    about_objects = [each for each in asked if each != ""]  # the root of the directory tells where to search
    assert about_objects == [set(some), set(confined.scopes[0])]


def test_nothing_is_told_of_what_was_read_before_the_writes(
    confined: Call, directory: Directory, organizational_unit: str
) -> None:
    one, two = (directory.add_user(parent=organizational_unit, title="before") for _ in range(2))
    with Prefetches().of([one, two]) as prefetch:
        call = replace(confined, prefetch=prefetch)
        assert find_object(call, one, attributes=("title",)).text("title") == "before"
        assert prefetch_of(call) is prefetch
        directory.modify(one, title="after")
        assert find_object(call, one, attributes=("title",)).text("title") == "before"
    assert prefetch_of(call) is None
    assert find_object(call, one, attributes=("title",)).text("title") == "after"
    assert scope_bases(call) == (organizational_unit,)
