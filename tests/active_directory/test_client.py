"""Reads, searches and writes against a real domain controller."""

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest

from active_directory import (
    Add,
    BindResult,
    Client,
    Delete,
    Equals,
    LimitExceeded,
    Modification,
    Modify,
    NotFound,
    Present,
    Rename,
    Scope,
    ServerSettings,
    VersionConflict,
    quoted_password,
    swap,
)
from active_directory.connections.inspection import check_server, is_recycle_bin_enabled
from active_directory.streaming import GRACE_SECONDS
from lab.directory import PASSWORD, Directory, filetime, random_name
from lab.domain import Domain


def test_it_works(client: Client, directory: Directory, organizational_unit: str) -> None:
    dn = f"CN=Ada,{organizational_unit}"
    server = client.write(Add(dn, {"objectClass": [b"user"], "sAMAccountName": [random_name("u").encode()]}))
    assert server in client.settings.urls[0]
    entry = client.read(dn)
    assert entry.object_classes == ["top", "person", "organizationalPerson", "user"]
    guid = entry.guid
    client.write(Modify(f"<GUID={guid}>", (Modification("replace", "title", (b"Countess",)),)))
    assert directory.text(guid, "title") == "Countess"
    client.write(Rename(dn, "CN=Ada L", organizational_unit))
    assert client.read(guid, ["cn"]).text("cn") == "Ada L"
    client.write(Delete(f"CN=Ada L,{organizational_unit}"))
    assert client.find(guid) is None


def test_reading_asks_for_what_is_named(client: Client, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, description="x")
    assert set(client.read(user, ["description", "cn"])) == {"description", "cn"}
    assert set(client.read(user, [])) == set()
    assert "nTSecurityDescriptor" not in client.read(user)
    assert "nTSecurityDescriptor" in client.read(user, ["cn"], descriptor=True)


def test_reading_many(client: Client, directory: Directory, organizational_unit: str) -> None:
    users = [directory.add_user(parent=organizational_unit) for _ in range(60)]
    found = client.read_many([*users, users[0], uuid.uuid4()], ["cn"])
    assert set(found) == set(users)
    assert all(entry.text("cn") for entry in found.values())
    assert client.read_many([], ["cn"]) == {}


def test_searching_streams_and_stops(client: Client, directory: Directory, organizational_unit: str) -> None:
    for number in range(12):
        directory.add(f"CN={number},{organizational_unit}", {"objectClass": "contact"})
    contacts = Equals("objectClass", "contact")
    found = client.search(organizational_unit, Scope.ONE_LEVEL, contacts, ["cn"])
    assert {entry.text("cn") for entry in found} == {str(number) for number in range(12)}
    for limit in (0, 1, 11, 12, 13):
        limited = client.search(organizational_unit, Scope.SUBTREE, contacts, ["cn"], limit=limit)
        assert len(list(limited)) == min(limit, 12)
    stopped = client.search(directory.guid(organizational_unit), Scope.SUBTREE, contacts, ["cn"])
    next(stopped)
    stopped.close()  # type: ignore[attr-defined]
    assert client.read(organizational_unit, ["ou"])
    assert list(client.search(organizational_unit, Scope.BASE, contacts)) == []
    with pytest.raises(NotFound):
        list(client.search(f"OU=missing,{organizational_unit}", Scope.SUBTREE))


def test_searching_in_parts_leaves_nothing_out(
    client: Client, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what it cannot identify nor what it cannot read by its identifier any more: it may be protected."""
    names = directory.add_contacts(3, parent=organizational_unit)

    def found() -> list[str]:
        each = client.search_in_parts(organizational_unit, Scope.ONE_LEVEL, Present("objectClass"), ("cn",))
        return sorted(entry.dn for entry in each)

    assert found() == sorted(names)
    read = client.read_each
    monkeypatch.setattr(client, "read_each", lambda guids, attributes: read(guids[1:], attributes))
    assert found() == sorted(names)


def test_a_search_given_up_leaves_its_connection_in_use(client: Client) -> None:
    for _ in range(20):
        assert len(list(client.search(client.settings.base_dn, Scope.SUBTREE, limit=3))) == 3
        assert client.root_dse().text("defaultNamingContext")
    assert client._pool._open == 1


def test_the_time_for_a_search_is_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    users = f"CN=Users,{client.settings.base_dn}"
    slow = client.search(users, Scope.SUBTREE, Present("objectClass"), seconds=600)
    next(slow)
    over = time.monotonic() + 600 + GRACE_SECONDS
    monkeypatch.setattr("active_directory.streaming.time", SimpleNamespace(monotonic=lambda: over))
    with pytest.raises(LimitExceeded):
        list(slow)
    assert client.root_dse()


def test_deleted_objects_are_shown_when_asked_for(
    client: Client, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user("gone", parent=organizational_unit)
    directory.delete(user)
    assert client.find(user) is None
    entry = client.read(user, ["isDeleted", "lastKnownParent", "msDS-LastKnownRDN"], deleted=True)
    assert entry.boolean("isDeleted")
    assert entry.text("lastKnownParent") == organizational_unit


def test_a_tombstone_is_reanimated_by_a_modify(
    domain_without_recycle_bin: Domain, server_settings: ServerSettings
) -> None:
    other = domain_without_recycle_bin
    client = Client(replace(server_settings, urls=(other.url,), ca_certificate=other.ca_pem))
    assert not is_recycle_bin_enabled(client)
    name = f"OU={random_name('unit')},{other.base_dn}"
    client.write(Add(name, {"objectClass": [b"organizationalUnit"]}))
    guid = client.read(name).guid
    client.write(Delete(name))
    steps = (Modification("delete", "isDeleted"), Modification("replace", "distinguishedName", (name.encode(),)))
    client.write(Modify(client.read(guid, deleted=True).dn, steps, deleted=True))
    assert client.read(guid).dn == name
    client.close()


def test_a_tree_is_deleted_when_asked_for(client: Client, directory: Directory, organizational_unit: str) -> None:
    inner = directory.add_unit("inner", parent=organizational_unit)
    directory.add_user(parent=inner)
    client.write(Delete(inner, tree=True))
    assert client.find(inner) is None


def test_compare_and_swap(client: Client, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit)
    dn = directory.dn(user)

    def attempt(old: bytes | None, new: bytes | None) -> bytes | None:
        client.write(Modify(dn, swap("title", old, new), guarded=True))
        values = client.read(user, ["title"]).values("title")
        return values[0] if values else None

    assert attempt(None, b"one") == b"one"
    assert attempt(b"one", b"two") == b"two"
    for stale in ((b"one", b"three"), (None, b"three"), (b"one", None)):
        with pytest.raises(VersionConflict):
            attempt(*stale)
    assert directory.text(user, "title") == "two"
    assert attempt(b"two", None) is None
    assert swap("title", b"same", b"same") == ()


def test_a_stale_swap_guards_the_whole_modify(client: Client, directory: Directory, organizational_unit: str) -> None:
    user = directory.add_user(parent=organizational_unit, title="new")
    steps = (Modification("replace", "mail", (b"x@y",)), *swap("title", b"old", b"newer"))
    with pytest.raises(VersionConflict):
        client.write(Modify(directory.dn(user), steps, guarded=True))
    assert directory.text(user, "mail") is None


def test_many_writes_on_one_connection(client: Client, directory: Directory, organizational_unit: str) -> None:
    users = [directory.add_user(parent=organizational_unit, title="old") for _ in range(40)]
    stale = {7, 39}
    writes = [
        Modify(f"<GUID={user}>", swap("title", b"wrong" if index in stale else b"old", b"new"), guarded=True)
        for index, user in enumerate(users)
    ]
    outcomes = {index: error for index, error, _ in client.write_many(writes)}
    assert set(outcomes) == set(range(40))
    assert {index for index, error in outcomes.items() if error} == stale
    assert all(isinstance(outcomes[index], VersionConflict) for index in stale)
    titles = [directory.text(user, "title") for user in users]
    assert [index for index, title in enumerate(titles) if title == "old"] == sorted(stale)
    assert client._pool._open == 1
    assert list(client.write_many([])) == []


Prepare = Callable[[Directory, uuid.UUID], None]


@pytest.mark.parametrize(
    ("prepare", "password", "expected"),
    [
        (lambda *_: None, PASSWORD, BindResult.OK),
        (lambda *_: None, "wrong", BindResult.WRONG),
        (lambda *_: None, "", BindResult.WRONG),
        (lambda *_: None, "a\x00b", BindResult.WRONG),
        (lambda *_: None, "\ud800", BindResult.WRONG),
        (lambda directory, user: directory.modify(user, userAccountControl="514"), PASSWORD, BindResult.DISABLED),
        (lambda directory, user: directory.modify(user, accountExpires=filetime(-60)), PASSWORD, BindResult.EXPIRED),
        (lambda directory, user: directory.modify(user, pwdLastSet="0"), PASSWORD, BindResult.MUST_CHANGE),
    ],
)
def test_people_sign_in(
    client: Client,
    directory: Directory,
    organizational_unit: str,
    *,
    prepare: Prepare,
    password: str,
    expected: BindResult,
) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    prepare(directory, user)
    assert client.authenticate(directory.dn(user), password) is expected


def test_an_unknown_or_locked_person_is_turned_away(
    client: Client, directory: Directory, organizational_unit: str
) -> None:
    user = directory.add_user(parent=organizational_unit, password=PASSWORD)
    directory.lock_out(user)
    assert client.authenticate(directory.dn(user), PASSWORD) in (BindResult.LOCKED, BindResult.WRONG)
    assert client.authenticate(f"CN=missing,{organizational_unit}", PASSWORD) is BindResult.WRONG
    assert client.authenticate("", PASSWORD) is BindResult.WRONG


def test_the_check_tells_what_was_reached(client: Client) -> None:
    check = check_server(client)
    assert check.url == client.settings.urls[0]
    assert check.tls_version.startswith("TLS")
    assert client.settings.base_dn in check.naming_contexts
    assert check.attribute_count > 1400
    assert check.class_count > 250
    assert check.base_readable
    assert check.recycle_bin
    assert "description" in check.writable_attributes
    assert "user" in check.creatable_classes


def test_nothing_shows_a_password(client: Client, directory: Directory, organizational_unit: str) -> None:
    secret = "A-Very-Secret-1"
    value = quoted_password(secret)
    shown = [
        repr(Modify("CN=a", (Modification("replace", "unicodePwd", (value,)),))),
        repr(Add("CN=a", {"unicodePwd": [value]})),
        repr(client),
        repr(client.settings),
    ]
    assert client.settings.bind_password not in "".join(shown)
    assert "Secret" not in "".join(shown)
    assert "S\\x00e" not in "".join(shown)
