"""Reads and writes over connections that fall silent or break, and what may be repeated."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from uuid import UUID

import pytest

from active_directory import Client, Modification, Modify, OutcomeUnknown, Scope, ServerSettings, Unavailable
from active_directory.connections import connection
from active_directory.connections.pool import Pool
from lab.directory import Directory
from lab.proxy import FaultyProxy
from tests.support.ldap_clients import impatient, titled


@pytest.fixture
def proxied(server_settings: ServerSettings, directory_proxy: FaultyProxy) -> Iterator[Client]:
    """A client behind a proxy that misbehaves on request."""
    client = Client(replace(server_settings, urls=(directory_proxy.url,)))
    yield client
    client.close()


def test_a_server_that_falls_silent(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    assert proxied.root_dse()
    directory_proxy.stall()
    begun = time.monotonic()
    with impatient(proxied), pytest.raises(Unavailable):
        proxied.read(user)
    assert time.monotonic() - begun < 60
    directory_proxy.restore()
    assert proxied.read(user)


def test_a_server_that_falls_silent_in_the_middle_of_a_message(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    large = Modify(f"<GUID={user}>", (Modification("replace", "jpegPhoto", (b"x" * 16_000_000,)),))
    proxied._pool.settings = replace(proxied.settings, operation_seconds=2)  # bounds each send and receive
    assert proxied.root_dse()
    directory_proxy.stall_after(10_000)
    begun = time.monotonic()
    with impatient(proxied), pytest.raises(Unavailable):
        list(proxied.search(proxied.settings.base_dn, Scope.SUBTREE))
    directory_proxy.restore()
    assert proxied.root_dse()
    directory_proxy.stall()
    with impatient(proxied), pytest.raises(OutcomeUnknown):
        proxied.write(large)
    assert time.monotonic() - begun < 110  # else it would have waited for as long as the client does


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = directory.add_user(parent=organizational_unit)
    client = Client(replace(server_settings, urls=(directory_proxy.url,), operation_seconds=600))
    with monkeypatch.context() as patch:  # of a server that is slow nobody moves afterwards
        patch.setattr(connection, "SILENT_SECONDS", 600.0)
        assert read(client, user)
    accepted = directory_proxy.accepted
    directory_proxy.stall_present()
    begun = time.monotonic()
    assert read(client, user)
    assert time.monotonic() - begun < 300  # else it would have waited for the silent one's answer
    assert directory_proxy.accepted == accepted + 1
    client.close()


def test_a_patient_search_waits_for_its_answer(
    server_settings: ServerSettings, directory_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(replace(server_settings, urls=(directory_proxy.url,), operation_seconds=600))
    with monkeypatch.context() as patch:
        patch.setattr(connection, "SILENT_SECONDS", 600.0)
        assert client.root_dse()
    directory_proxy.stall_present()
    threading.Timer(connection.SILENT_SECONDS * 3, directory_proxy.restore).start()
    assert list(client.search(client.settings.base_dn, Scope.BASE, patient=True))
    assert directory_proxy.accepted == 1
    client.close()


def test_where_the_server_itself_is_slow_nobody_moves(
    server_settings: ServerSettings, directory_proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would open a connection for every read, to no avail."""
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.0001)  # answers come too late
    monkeypatch.setattr(connection, "_SLOW_SECONDS", 3600.0)
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
    two = Pool(replace(server_settings, urls=(directory_proxy.url,), pool_size=2))
    deadline = time.monotonic() + 600
    first, second = two.acquire(deadline), two.acquire(deadline)
    two.release(first)
    third = two.acquire(deadline, new=True)
    assert third not in (first, second)
    assert directory_proxy.accepted == 3
    two.release(second)
    two.release(third)
    assert {two.acquire(deadline), two.acquire(deadline)} == {second, third}
    two.close()


@pytest.mark.usefixtures("nobody_moves")
def test_a_broken_connection_is_replaced_for_a_read(proxied: Client, directory_proxy: FaultyProxy) -> None:
    assert proxied.root_dse()
    directory_proxy.drop_connections()
    assert proxied.root_dse()

    def drop() -> None:
        directory_proxy.drop_connections()
        directory_proxy.restore()

    directory_proxy.stall()
    directory_proxy.when_held(drop)
    assert proxied.root_dse()


@pytest.mark.usefixtures("nobody_moves")
def test_a_search_cut_short_is_no_success(proxied: Client, directory_proxy: FaultyProxy) -> None:
    assert proxied.root_dse()
    directory_proxy.stall_after(10_000)  # else all of it may be on this side already
    found = proxied.search(proxied.settings.base_dn, Scope.SUBTREE, attributes=["cn"])
    next(found)
    directory_proxy.cut()
    with pytest.raises(Unavailable):
        list(found)


@pytest.mark.usefixtures("nobody_moves")
def test_an_idle_connection_that_broke_does_not_make_a_write_unknown(
    proxied: Client, directory: Directory, directory_proxy: FaultyProxy, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit)
    assert proxied.root_dse()
    (idle,) = proxied._pool._idle
    directory_proxy.drop_connections()
    deadline = time.monotonic() + 60
    while not idle.has_unexpected_input():
        assert time.monotonic() < deadline
        time.sleep(0.01)
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
    gives_up = impatient(proxied, seconds=5) if fault == "swallow_answers" else nullcontext()
    with gives_up, pytest.raises(OutcomeUnknown):
        proxied.write(titled(user, b"new"))
    directory_proxy.restore()
    deadline = time.monotonic() + 60
    while directory.text(user, "title") != "new":  # it may have been given up before the server came to it
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert proxied.read(user, ["replPropertyMetaData"]).versions[kind.attid] == before + 1  # sent once, applied once


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
    directory_proxy.when_swallowed(directory_proxy.cut)
    directory_proxy.swallow_answers()  # what has arrived already is known; what is sent from now on is not
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
