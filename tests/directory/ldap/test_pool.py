"""Connections that break, servers that go and come back, and what may be repeated."""

import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import pytest

from directory.ldap import (
    BadCredentials,
    Client,
    Modification,
    Modify,
    OutcomeUnknown,
    Scope,
    ServerSettings,
    Unavailable,
)
from directory.ldap.connections.attempts import SILENT_SECONDS
from directory.ldap.connections.connection import open_connection
from directory.ldap.connections.pool import Pool
from directory.ldap.inspection import check_server
from tests.support.directory import Directory
from tests.support.domain import Domain
from tests.support.proxy import FaultyProxy


@pytest.fixture
def dead_url() -> Iterator[str]:
    """An address on which nothing listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.31.1", 0))
        yield f"ldaps://127.0.31.1:{reserved.getsockname()[1]}"


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A server that accepts connections and says nothing."""
    with socket.create_server(("127.0.31.1", 0)) as silent:
        yield f"ldaps://127.0.31.1:{silent.getsockname()[1]}"


@pytest.fixture
def proxied(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> Iterator[Client]:
    """A client behind a proxy that misbehaves on request; it loses patience soon."""
    client = Client(replace(server_settings, urls=(directory_proxy.url,), connect_seconds=2, operation_seconds=2))
    yield client
    client.close()


def titled(user: object, title: bytes) -> Modify:
    return Modify(f"<GUID={user}>", (Modification("replace", "title", (title,)),))


def test_what_was_not_sent_when_a_connection_is_given_up_is_never_sent(server_settings: ServerSettings) -> None:
    """The system would go on with it for minutes, and a write that was found not to be made would be made after all."""
    opened = open_connection(server_settings.urls[0], server_settings, 60)
    with socket.socket(fileno=os.dup(opened.descriptor)) as shared:
        options = shared.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
    opened.close()
    with socket.create_server(("127.0.31.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, options)
    near.setblocking(False)
    sent = received = 0
    while True:
        try:
            sent += near.send(bytes(1 << 20))
        except BlockingIOError:
            break
    near.close()
    with far, suppress(ConnectionResetError):
        while read := far.recv(1 << 20):
            received += len(read)
    assert received < sent


def test_nothing_is_opened_before_it_is_needed(server_settings: ServerSettings, dead_url: str) -> None:
    client = Client(replace(server_settings, urls=(dead_url,)))
    assert client.read_many([]) == {}
    client.close()


def test_a_dead_first_server_is_passed_over(server_settings: ServerSettings, dead_url: str) -> None:
    client = Client(replace(server_settings, urls=(dead_url, *server_settings.urls)))
    assert client.root_dse()
    assert client.authenticate(server_settings.bind_dn, server_settings.bind_password).value == "ok"
    client.close()


def test_the_first_server_is_used_again_when_it_is_back(
    server_settings: ServerSettings, directory_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("directory.ldap.connections.pool.PENALTY_SECONDS", 0.3)
    client = Client(replace(server_settings, urls=(directory_proxy.url, *server_settings.urls)))
    assert client.root_dse()
    assert directory_proxy.accepted == 1
    directory_proxy.cut()
    assert client.root_dse()  # by the second server
    directory_proxy.restore()
    time.sleep(0.35)
    accepted = directory_proxy.accepted
    assert client.root_dse()
    assert directory_proxy.accepted == accepted + 1
    assert directory_proxy.open_connections == 1
    client.close()


def test_no_server_at_all(server_settings: ServerSettings, dead_url: str) -> None:
    client = Client(replace(server_settings, urls=(dead_url,)))
    for attempt in (
        client.root_dse,
        lambda: client.write(titled("x", b"y")),
        lambda: list(client.search("", Scope.BASE)),
        lambda: list(client.write_many([titled("x", b"y")])),
        lambda: client.authenticate("a", "b"),
        lambda: check_server(client),
    ):
        with pytest.raises(Unavailable):
            attempt()


def test_a_silent_server_costs_the_connect_time(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> None:
    settings = replace(server_settings, urls=(directory_proxy.url, *server_settings.urls), connect_seconds=2)
    client = Client(replace(settings, operation_seconds=120))
    directory_proxy.stall()
    begun = time.monotonic()
    assert client.root_dse()
    assert 1.9 < time.monotonic() - begun < 120
    client._pool.discard(client._pool.acquire(time.monotonic() + 120))
    assert client.root_dse()
    assert directory_proxy.accepted == 1  # it is not asked first again for a while
    client.close()


def test_only_silence(server_settings: ServerSettings, silent_url: str) -> None:
    for settings in (
        replace(server_settings, urls=(silent_url,), connect_seconds=1),
        replace(server_settings, urls=(silent_url.replace("ldaps", "ldap"),), connect_seconds=1, start_tls=True),
    ):
        begun = time.monotonic()
        with pytest.raises(Unavailable):
            Client(settings).root_dse()
        assert time.monotonic() - begun < server_settings.operation_seconds


def test_a_server_that_falls_silent(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    assert proxied.root_dse()
    directory_proxy.stall()
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        proxied.read(user)
    assert time.monotonic() - begun < 60
    directory_proxy.restore()
    assert proxied.read(user)


def test_a_server_that_falls_silent_in_the_middle_of_a_message(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    large = Modify(f"<GUID={user}>", (Modification("replace", "jpegPhoto", (b"x" * 16_000_000,)),))
    assert proxied.root_dse()
    directory_proxy.stall_after(10_000)
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        list(proxied.search(proxied.settings.base_dn, Scope.SUBTREE))
    directory_proxy.restore()
    assert proxied.root_dse()
    directory_proxy.stall()
    with pytest.raises(OutcomeUnknown):
        proxied.write(large)
    assert time.monotonic() - begun < 60


READS: dict[str, Callable[[Client, UUID], object]] = {
    "an object": lambda client, user: client.read(user),
    "many": lambda client, user: client.read_many([user]),
    "a search": lambda client, user: list(client.search(user, Scope.BASE)),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_read_moves_from_a_silent_connection_to_a_new_one(
    server_settings: ServerSettings,
    directory: Directory,
    directory_proxy: FaultyProxy,
    organizational_unit: str,
    read: Callable[[Client, UUID], object],
) -> None:
    user = directory.add_user(parent=organizational_unit)
    client = Client(replace(server_settings, urls=(directory_proxy.url,), operation_seconds=600))
    assert read(client, user)
    accepted = directory_proxy.accepted
    directory_proxy.stall_present()
    begun = time.monotonic()
    assert read(client, user)
    assert time.monotonic() - begun < 300  # else it would have waited for the silent one's answer
    assert directory_proxy.accepted == accepted + 1
    client.close()


def test_a_patient_search_waits_for_its_answer(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> None:
    client = Client(replace(server_settings, urls=(directory_proxy.url,), operation_seconds=600))
    assert client.root_dse()
    directory_proxy.stall_present()
    threading.Timer(SILENT_SECONDS * 3, directory_proxy.restore).start()
    assert list(client.search(client.settings.base_dn, Scope.BASE, patient=True))
    assert directory_proxy.accepted == 1
    client.close()


def test_where_the_server_itself_is_slow_nobody_moves(
    server_settings: ServerSettings, directory_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would open a connection for every read, to no avail."""
    monkeypatch.setattr("directory.ldap.connections.attempts.SILENT_SECONDS", 0.0001)  # answers come too late
    monkeypatch.setattr("directory.ldap.connections.attempts._SLOW_SECONDS", 3600.0)
    client = Client(replace(server_settings, urls=(directory_proxy.url,)))
    while not client._pace.is_slow:  # an answer may have come before it is waited for
        assert client.root_dse()
    accepted = directory_proxy.accepted
    for _ in range(3):
        assert client.root_dse()
    assert directory_proxy.accepted == accepted
    client.close()


def test_a_new_connection_takes_the_place_of_an_idle_one(
    server_settings: ServerSettings, directory_proxy: FaultyProxy
) -> None:
    pool = Pool(replace(server_settings, urls=(directory_proxy.url,), pool_size=2))
    deadline = time.monotonic() + 600
    first, second = pool.acquire(deadline), pool.acquire(deadline)
    pool.release(first)
    third = pool.acquire(deadline, new=True)
    assert third not in (first, second)
    assert directory_proxy.accepted == 3
    pool.release(second)
    pool.release(third)
    assert {pool.acquire(deadline), pool.acquire(deadline)} == {second, third}
    pool.close()


def test_a_broken_connection_is_replaced_for_a_read(proxied: Client, directory_proxy: FaultyProxy) -> None:
    assert proxied.root_dse()
    directory_proxy.drop_connections()
    assert proxied.root_dse()
    directory_proxy.stall()
    threading.Timer(0.2, directory_proxy.drop_connections).start()
    threading.Timer(0.3, directory_proxy.restore).start()
    assert proxied.root_dse()


def test_a_search_cut_short_is_no_success(proxied: Client, directory_proxy: FaultyProxy) -> None:
    assert proxied.root_dse()
    directory_proxy.stall_after(10_000)  # else all of it may be on this side already
    found = proxied.search(proxied.settings.base_dn, Scope.SUBTREE, attributes=["cn"])
    next(found)
    directory_proxy.cut()
    with pytest.raises(Unavailable):
        list(found)


def test_an_idle_connection_that_broke_does_not_make_a_write_unknown(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    assert proxied.root_dse()
    directory_proxy.drop_connections()
    time.sleep(0.1)
    proxied.write(titled(user, b"written"))
    assert directory.text(user, "title") == "written"


@pytest.mark.parametrize("fault", ["lose_answer", "swallow_answers"])
def test_a_lost_answer_is_unknown_and_the_versions_tell(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str, fault: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    directory.modify(user, title="old")
    kind = proxied.schema.attribute("title")
    assert kind is not None
    assert kind.attid is not None
    before = proxied.read(user, ["replPropertyMetaData"]).versions[kind.attid]
    getattr(directory_proxy, fault)()
    with pytest.raises(OutcomeUnknown):
        proxied.write(titled(user, b"new"))
    directory_proxy.restore()
    assert proxied.read(user, ["replPropertyMetaData"]).versions[kind.attid] == before + 1  # sent once, applied once
    assert directory.text(user, "title") == "new"


def test_a_request_that_never_arrived_is_unknown_and_the_versions_tell(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    directory.modify(user, title="old")
    before = proxied.read(user, ["replPropertyMetaData"]).versions
    directory_proxy.stall()
    directory_proxy.when_held(directory_proxy.drop_connections)
    with pytest.raises(OutcomeUnknown):
        proxied.write(titled(user, b"new"))
    directory_proxy.cut()
    directory_proxy.restore()
    assert proxied.read(user, ["replPropertyMetaData"]).versions == before


def test_a_pipeline_that_breaks(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    users = [directory.add_user(parent=organizational_unit) for _ in range(50)]
    outcomes = proxied.write_many([titled(user, b"new") for user in users])
    done = [next(outcomes) for _ in range(5)]
    directory_proxy.swallow_answers()  # what has arrived already is known; what is sent from now on is not
    threading.Timer(0.3, directory_proxy.cut).start()
    rest = list(outcomes)
    assert [index for index, _, _ in done + rest] == list(range(50))
    assert not any(error for _, error, _ in done)
    unknown = [index for index, error, _ in rest if isinstance(error, OutcomeUnknown)]
    unsent = [index for index, error, _ in rest if isinstance(error, Unavailable)]
    assert unknown
    assert all(index >= 32 for index in unsent)  # as many as are on their way at a time
    assert len(unknown) + len(unsent) + sum(error is None for _, error, _ in rest) == len(rest)
    for index in unsent:
        assert directory.text(users[index], "title") is None


def test_a_restarted_controller_is_found_again(domain: Domain, client: Client, directory: Directory) -> None:
    with_threads(client.root_dse, 4)
    domain.controller.stop()
    with pytest.raises(Unavailable):
        client.root_dse()
    domain.controller.start()
    directory.reconnect()
    with_threads(client.root_dse, 8)
    assert client._pool._open <= client.settings.pool_size


def test_a_frozen_controller_is_unavailable(server_settings: ServerSettings, domain: Domain) -> None:
    client = Client(replace(server_settings, connect_seconds=2, operation_seconds=2))
    fresh = Client(client.settings)
    assert client.root_dse()
    domain.controller.pause()
    try:
        for frozen in (client, fresh):
            begun = time.monotonic()
            with pytest.raises(Unavailable):
                frozen.root_dse()
            assert time.monotonic() - begun < 60
    finally:
        domain.controller.resume()
    assert client.root_dse()
    assert fresh.root_dse()


def test_wrong_credentials_are_tried_once(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> None:
    client = Client(replace(server_settings, urls=(directory_proxy.url,), bind_password="wrong"))
    for _ in range(3):
        with pytest.raises(BadCredentials) as caught:
            client.root_dse()
        assert "wrong" not in str(caught.value)

    def be_refused() -> None:
        with pytest.raises(BadCredentials):
            client.root_dse()

    with_threads(be_refused, 8)
    assert directory_proxy.accepted == 1
    fresh = Client(client.settings)
    client = fresh
    with_threads(be_refused, 8)  # all at once, none knowing yet
    assert directory_proxy.accepted == 2
    empty = Client(replace(server_settings, bind_password=""))
    with pytest.raises(BadCredentials):
        empty.root_dse()


def test_the_pool_is_bounded_and_shared(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> None:
    client = Client(replace(server_settings, urls=(directory_proxy.url,), pool_size=2))
    with_threads(lambda: [client.root_dse() for _ in range(20)], 8)
    assert directory_proxy.accepted <= 2
    holding = [client.search("", Scope.BASE) for _ in range(2)]
    for search in holding:
        next(search)
    impatient = Client(replace(client.settings, connect_seconds=0.1, operation_seconds=0.1))
    impatient._pool = client._pool
    with pytest.raises(Unavailable):
        impatient.root_dse()
    del holding, search
    gc.collect()
    assert client.root_dse()
    client.close()
    assert client._pool._open == 0


def test_an_idle_connection_is_checked(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> None:
    client = Client(replace(server_settings, urls=(directory_proxy.url,), idle_seconds=0, operation_seconds=120))
    assert client.root_dse()
    directory_proxy.stall_present()
    assert client.root_dse()  # the check gave the first connection up
    assert directory_proxy.accepted == 2
    client.close()


def test_a_forked_process_leaves_its_parent_s_connections_alone(client: Client) -> None:
    assert client.root_dse()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        code = 1
        try:
            code = 0 if client._pool._open == 0 and client.root_dse() and client._pool._open == 1 else 2
            gc.collect()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    before = client._pool._idle[0]
    assert client.root_dse()
    assert client._pool._idle[0] is before


def with_threads(work, count: int) -> None:  # type: ignore[no-untyped-def]
    """Run the same in several threads and raise what one of them raised."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
