"""Reads that wait on the event loop at the same moment: one search for all, and nobody holds up the loop."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from active_directory import Client, Entry, WouldBlock, run_on_loop, servers_asked
from active_directory import coalesced_reads as module
from active_directory.connections import measurements
from active_directory.connections.measurements import Listener
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import Fault, FaultyProxy

NAMES = ("objectGUID", "cn", "parentGUID", "memberOf", "msDS-User-Account-Control-Computed", "description", "title")


class Loop:
    """Reads with one client on an event loop."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def read(self, guid: UUID, names: Sequence[str] = NAMES) -> Entry | None:
        """None for what is left to a thread."""
        try:
            return await run_on_loop(lambda: self.client.read(guid, names, coalesce=True))
        except WouldBlock:
            return None

    async def until_read(self, guid: UUID) -> Entry:
        while (entry := await self.read(guid)) is None:
            await asyncio.sleep(0.01)
        return entry

    async def read_all(self, guids: Sequence[UUID]) -> list[Entry | None]:
        return await asyncio.gather(*map(self.read, guids))


class Searches(Listener):
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0

    def used(self, server: str, kind: str, seconds: float) -> None:
        self.count += 1


@pytest.fixture
def loop(client: Client) -> Iterator[Loop]:
    yield Loop(client)
    client.close()


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    made = Searches()
    monkeypatch.setattr(measurements, "listener", made)
    return made


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No read is left to a thread because the machine is busy."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 60.0)


@pytest.fixture
def users(directory: Directory, organizational_unit: str) -> list[UUID]:
    return [directory.add_user(parent=organizational_unit) for _ in range(6)]


def run(main: Callable[[], Awaitable[Any]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


def test_it_is_the_read_by_itself(loop: Loop, directory: Directory, organizational_unit: str, patient: None) -> None:
    user = directory.add_user(parent=organizational_unit, description="Ä")
    directory.add_group(parent=organizational_unit, members=[user])
    alone = loop.client.read(user, NAMES)

    async def main() -> None:
        await loop.until_read(user)

        def read() -> tuple[Entry, set[str]]:
            with servers_asked() as asked:
                return loop.client.read(user, NAMES, coalesce=True), asked

        entry, asked = await run_on_loop(read)
        assert (entry.dn, entry.attributes, entry.server) == (alone.dn, alone.attributes, alone.server)
        assert asked == {alone.server}

    run(main)


def test_those_who_wait_at_the_same_moment_share_a_search(
    loop: Loop, users: list[UUID], searches: Searches, patient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        await loop.until_read(users[0])
        for some, expected in ((users, 1), (users * 5, 1), ([users[0]], 1)):
            searches.count = 0
            found = await loop.read_all(some)
            assert [entry and entry.guid for entry in found] == some
            assert searches.count == expected
        monkeypatch.setattr(module, "_AT_ONCE", 4)
        searches.count = 0
        assert [entry and entry.guid for entry in await loop.read_all(users)] == users
        assert searches.count == 2
        both = await asyncio.gather(loop.read(users[0]), loop.read(users[0], ("objectGUID",)))
        assert [entry and entry.was_asked("cn") for entry in both] == [True, False]

    run(main)


def test_what_one_search_does_not_find_is_left_to_a_thread(loop: Loop, users: list[UUID], patient: None) -> None:
    outside = loop.client.read(loop.client.configuration_naming_context, ("objectGUID",)).guid

    async def main() -> None:
        await loop.until_read(users[0])
        found = await loop.read_all([users[0], uuid4(), outside, users[1]])
        assert [entry and entry.guid for entry in found] == [users[0], None, None, users[1]]
        assert await loop.read(uuid4()) is None

    run(main)


def test_a_silent_server_holds_up_nobody(loop: Loop, users: list[UUID], domain: Domain) -> None:
    async def main() -> None:
        await loop.until_read(users[0])
        domain.controller.pause()
        try:
            reading = asyncio.ensure_future(loop.read_all(users))
            turns = 0
            while not reading.done():
                await asyncio.sleep(0)
                turns += 1
            assert reading.result() == [None] * len(users)
            assert turns > 10
            assert await loop.read(users[0]) is None, "nobody waits for an answer that is late"
        finally:
            domain.controller.resume()
        await loop.until_read(users[0])

    run(main)


@pytest.mark.parametrize("octets", [3, 40, 300])
def test_a_server_that_stops_within_a_message_holds_up_nobody(
    client: Client, directory_proxy: FaultyProxy, users: list[UUID], octets: int
) -> None:
    settings = replace(client.settings, urls=(directory_proxy.url,), operation_seconds=10)
    loop = Loop(Client(settings))

    async def main() -> None:
        await loop.until_read(users[0])
        directory_proxy.stall_after(octets)
        reading = asyncio.ensure_future(loop.read_all(users))
        turns = 0
        while not reading.done():
            await asyncio.sleep(0)
            turns += directory_proxy._fault is Fault.STALL
        assert reading.result() == [None] * len(users)
        assert turns > 10
        directory_proxy.restore()
        await loop.until_read(users[0])

    run(main)
    loop.client.close()


def test_an_answer_may_come_in_pieces(
    client: Client, directory_proxy: FaultyProxy, users: list[UUID], patient: None
) -> None:
    loop = Loop(Client(replace(client.settings, urls=(directory_proxy.url,))))

    async def main() -> None:
        await loop.until_read(users[0])
        for octets in (3, 40, 300):
            directory_proxy.stall_after(octets)
            reading = asyncio.ensure_future(loop.read_all(users))
            while directory_proxy._fault is not Fault.STALL:
                await asyncio.sleep(0.01)
            directory_proxy.restore()
            assert [entry and entry.guid for entry in await reading] == users

    run(main)
    loop.client.close()


def test_a_client_that_is_closed_while_it_connects_keeps_no_connection(
    client: Client, directory_proxy: FaultyProxy, users: list[UUID]
) -> None:
    loop = Loop(Client(replace(client.settings, urls=(directory_proxy.url,))))

    async def main() -> None:
        assert await loop.read(users[0]) is None
        loop.client.close()
        await loop.client._coalesced_reads._task
        while directory_proxy.open_connections:
            await asyncio.sleep(0.01)
        assert await loop.read(users[0]) is None
        assert directory_proxy.accepted == 1

    run(main)


def test_a_lost_connection_is_replaced(loop: Loop, users: list[UUID], patient: None) -> None:
    async def main() -> None:
        await loop.until_read(users[0])
        connection = loop.client._coalesced_reads._connection
        assert connection is not None
        for under_way in (False, True):
            reading = asyncio.ensure_future(loop.read_all(users)) if under_way else None
            connection = loop.client._coalesced_reads._connection
            assert connection is not None
            with socket.socket(fileno=os.dup(connection.descriptor)) as shared:
                shared.shutdown(socket.SHUT_RDWR)
            if reading is not None:
                assert await reading == [None] * len(users)
            await loop.until_read(users[0])
            assert loop.client._coalesced_reads._connection is not connection

    run(main)


def test_another_loop_begins_anew(loop: Loop, users: list[UUID]) -> None:
    for _ in range(2):
        run(lambda: loop.until_read(users[0]))
