"""Reads that wait at the same moment: one search for all, and nobody depends on somebody else's."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from active_directory import Client, Entry, NotFound, servers_asked
from active_directory import coalesced_reads as module
from active_directory.coalesced_reads import CoalescedReads
from active_directory.errors import Unavailable
from active_directory.streaming import Query, Scope
from lab.directory import Directory

NAMES = ("objectGUID", "cn")
A, B, C, D = (bytes([number]) * 16 for number in range(1, 5))


class Server:
    """Holds each search until it is told to answer it."""

    def __init__(self) -> None:
        self.together = CoalescedReads("DC=example", self.search, frozenset)
        self.searches: list[tuple[Query, Future[Exception | None]]] = []
        self._sent = threading.Condition()
        self._pool = ThreadPoolExecutor(40)

    def search(self, query: Query) -> list[Entry]:
        failure: Future[Exception | None] = Future()
        with self._sent:
            self.searches.append((query, failure))
            self._sent.notify_all()
        if error := failure.result(60):
            raise error
        return [Entry("CN=x", {"objectGUID": [guid]}, server="ldaps://one") for guid in guids_of(query)]

    def read(self, guid: bytes, names: tuple[str, ...] = NAMES) -> Future[Entry | None]:
        return self._pool.submit(self.together.read, guid, names)

    def waiting(self, count: int) -> None:
        self._until(lambda: sum(map(len, self.together._waiting.values())) == count)

    def sent(self, count: int) -> list[bytes]:
        """The objectGUIDs of the newest search, once there have been so many."""
        self._until(lambda: len(self.searches) == count)
        return guids_of(self.searches[-1][0])

    def answer(self, number: int, error: Exception | None = None) -> None:
        self.searches[number][1].set_result(error)

    def _until(self, condition: Callable[[], bool]) -> None:
        with self._sent:
            for _ in range(6000):
                if condition():
                    return
                self._sent.wait(0.01)
        raise AssertionError("it never came to this")


def guids_of(query: Query) -> list[bytes]:
    if query.scope == Scope.BASE:
        return [UUID(query.base.removeprefix("<GUID=").removesuffix(">")).bytes_le]
    parts = query.filter.split("(objectGUID=")[1:]
    return [bytes.fromhex(part.split(")")[0].replace("\\", "")) for part in parts]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Whoever waits for a turn or an answer does so for long."""
    monkeypatch.setattr(module, "_TURN_SECONDS", 60.0)
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 60.0)
    server = Server()
    yield server
    for _, failure in server.searches:
        if not failure.done():
            failure.set_result(None)
    server._pool.shutdown()
    assert (server.together._waiting, server.together._under_way) == ({}, 0)


def test_those_who_wait_are_answered_by_one_search(server: Server) -> None:
    first = server.read(A)
    assert server.sent(1) == [A]
    waiting = []
    for count, guid in enumerate((B, A, C, B), 1):
        waiting.append(server.read(guid))
        server.waiting(count)
    others = server.read(D, ("objectGUID",))
    server.waiting(5)
    server.answer(0)
    assert first.result(60) is not None
    assert server.sent(2) == [B, A, C], "of those who came later, A is read again: its state may be a newer one"
    server.answer(1)
    assert [guid_of(each.result(60)) for each in waiting] == [B, A, C, B]
    assert server.sent(3) == [D], "they asked for other attributes"
    server.answer(2)
    assert guid_of(others.result(60)) == D


def guid_of(entry: Entry | None) -> bytes:
    assert entry is not None
    return entry.values("objectGUID")[0]


def test_a_failure_is_that_of_the_one_who_searched(server: Server) -> None:
    first = server.read(A)
    server.sent(1)
    second = server.read(B)
    server.waiting(1)
    third = server.read(C)
    server.waiting(2)
    server.answer(0, Unavailable("down"))
    with pytest.raises(Unavailable):
        first.result(60)
    assert server.sent(2) == [B, C]
    server.answer(1, Unavailable("still down"))
    with pytest.raises(Unavailable):
        second.result(60)
    assert third.result(60) is None, "it has to read for itself"


def test_a_distant_or_silent_server_holds_nobody_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.read(A)
    server.sent(1)
    follower = server.read(B)
    server.waiting(1)
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.01)
    server.read(C)
    assert server.sent(2) == [B, C], "the search under way takes long, so another one is sent"
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.01)
    server.answer(0)
    assert not follower.done()
    server.answer(1)
    assert guid_of(follower.result(60)) == B
    monkeypatch.setattr(module, "_TURN_SECONDS", 2.0)
    server.read(A)
    server.sent(3)
    server.read(B)
    server.waiting(1)
    impatient = server.read(C)
    server.waiting(2)
    server.answer(2)
    assert server.sent(4) == [B, C]
    assert impatient.result(60) is None, "it has to read for itself"


def test_everybody_gets_their_own_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TURN_SECONDS", 0.0005)
    sent: list[int] = []

    def search(query: Query) -> list[Entry]:
        guids = guids_of(query)
        sent.append(len(guids))
        threading.Event().wait(len(sent) % 5 / 5000)
        if len(sent) % 20 == 0:
            raise Unavailable("down")
        return [Entry("CN=x", {"objectGUID": [guid]}) for guid in reversed(guids)]

    together = CoalescedReads("DC=example", search, frozenset)
    chosen = [uuid4().bytes for _ in range(70)]

    def read(number: int) -> tuple[bytes, Entry | None]:
        guid = chosen[number % len(chosen)]
        try:
            return guid, together.read(guid, NAMES[: 1 + number % 2])
        except Unavailable:
            return guid, None

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(read, range(2000)))
    assert all(entry is None or entry.values("objectGUID") == [guid] for guid, entry in answers)
    assert sum(entry is None for _, entry in answers) < 500
    assert len(sent) < 1800
    assert (together._waiting, together._under_way) == ({}, 0)


def test_it_is_the_read_by_itself(client: Client, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, description="Ä")
    directory.add_group(parent=organizational_unit, members=[user])
    names = ("objectGUID", "cn", "parentGUID", "memberOf", "msDS-User-Account-Control-Computed", "Description", "title")
    alone = client.read(user, names)
    with servers_asked() as asked:
        entry = client.read(user, names, coalesce=True)
    assert (entry.dn, entry.attributes, entry.server) == (alone.dn, alone.attributes, alone.server)
    assert asked == {alone.server}
    with pytest.raises(NotFound):
        client.read(uuid4(), names, coalesce=True)
    outside = client.read(client.configuration_naming_context, ("objectGUID",)).guid
    assert client.read(outside, names, coalesce=True).guid == outside
    users: list[UUID] = [user, *(directory.add_user(parent=organizational_unit) for _ in range(5))]
    with ThreadPoolExecutor(6) as pool:
        found = pool.map(lambda guid: client.read(guid, names, coalesce=True).guid, users * 20)
        assert list(found) == users * 20
