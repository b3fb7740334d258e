"""The connections of a client: which server they lead to, how many there are, and when they are opened anew."""

import gc
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from active_directory import (
    BadCredentials,
    Client,
    Scope,
    ServerSettings,
    Unavailable,
)
from active_directory.connections import pool
from active_directory.connections.connection import Connection, open_connection
from active_directory.connections.inspection import check_server
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import FaultyProxy
from tests.support.ldap_clients import impatient, titled


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


@pytest.mark.usefixtures("nobody_moves")
def test_the_first_server_is_used_again_when_it_is_back(
    server_settings: ServerSettings, directory_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PENALTY_SECONDS", 0.3)
    monkeypatch.setattr(pool, "HEALTH_SECONDS", 60.0)
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


def test_a_silent_server_costs_the_connect_time(
    server_settings: ServerSettings, directory_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PENALTY_SECONDS", 600.0)
    settings = replace(server_settings, urls=(directory_proxy.url, *server_settings.urls), operation_seconds=600)

    def connect(url: str, settings: ServerSettings, seconds: float) -> Connection:
        return open_connection(url, settings, 2 if url == directory_proxy.url else seconds)

    client = Client(settings, connect)
    directory_proxy.stall()
    begun = time.monotonic()
    assert client.root_dse()
    assert 1.9 < time.monotonic() - begun < 300
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


def test_a_restarted_controller_is_found_again(domain: Domain, client: Client, directory: Directory) -> None:
    with_threads(client.root_dse, 4)
    domain.controller.stop()
    with pytest.raises(Unavailable):
        client.root_dse()
    domain.controller.start_and_wait()
    directory.reconnect()
    with_threads(client.root_dse, 8)
    assert client._pool._open <= client.settings.pool_size


def test_a_frozen_controller_is_unavailable(server_settings: ServerSettings, domain: Domain) -> None:
    client, fresh = Client(server_settings), Client(server_settings)
    assert client.root_dse()
    domain.controller.pause()
    try:
        for frozen in (client, fresh):
            begun = time.monotonic()
            with impatient(frozen), pytest.raises(Unavailable):
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


@pytest.mark.usefixtures("nobody_moves")
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


@pytest.mark.usefixtures("nobody_moves")
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
