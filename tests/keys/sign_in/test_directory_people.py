"""People of a real directory at the door: why they are not let in, and that trying never locks their account."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone
from structlog.testing import capture_logs

from active_directory.connections import connection as ldap_connection
from directory.models import DirectoryConnection, PasswordAttempt
from keys.models import FailedSignIn
from lab.directory import PASSWORD, Directory, filetime
from lab.domain import Domain
from lab.samba.database import age_passwords
from tests.keys.sign_in.locking import locking_policy
from tests.support.cast import Answer, make_connection, send


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain, name="corp")


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(
        "Ada Lovelace",
        parent=organizational_unit,
        password=PASSWORD,
        sAMAccountName="ada.lovelace",
        userPrincipalName="ada@corp.example.test",
        displayName="Ada Lovelace",
    )


@pytest.fixture
def strict(directory: Directory, ada: UUID) -> Iterator[None]:
    """A fine-grained policy that locks Ada's account at the fifth failure within half an hour."""
    with locking_policy(directory, ada):
        yield


def sign_in(username: str, password: str = PASSWORD, **more: str) -> Answer:
    body = {"username": username, "password": password, "directory": "corp", **more}
    return send(Client(), "POST", "/rest/session", body)


def reason_of(username: str, password: str = PASSWORD) -> str | None:
    """What the security log says of a sign-in; None when it succeeded."""
    with capture_logs() as logs:
        answer = sign_in(username, password)
    told = [line["reason"] for line in logs if line["event"] == "credential refused"]
    assert (answer.status, len(told)) in [(200, 0), (401, 1)]
    return told[0] if told else None


def counted(directory: Directory, account: UUID) -> int:
    """The wrong passwords in a row that the domain controller has counted."""
    return int(directory.text(account, "badPwdCount") or 0)


STATES: dict[str, Callable[[Directory, Domain, UUID], Any]] = {
    "account disabled": lambda directory, _, ada: directory.modify(ada, userAccountControl="514"),
    "account expired": lambda directory, _, ada: directory.modify(ada, accountExpires=filetime(-60)),
    "password must be changed": lambda directory, _, ada: directory.modify(ada, pwdLastSet="0"),
    "password expired": lambda directory, domain, ada: age_passwords(domain, directory, {ada: 1000}),
}


@pytest.mark.parametrize("reason", STATES)
def test_why_a_right_password_is_not_enough(
    reason: str, connection: DirectoryConnection, domain: Domain, directory: Directory, ada: UUID
) -> None:
    assert reason_of("ada.lovelace") is None
    STATES[reason](directory, domain, ada)
    assert reason_of("ada.lovelace", "wrong") == "wrong name or password"
    assert reason_of("ada.lovelace") == reason
    refused, unknown = sign_in("ada.lovelace"), sign_in("nobody")
    assert {**refused.body, "requestId": ""} == {**unknown.body, "requestId": ""}


def test_a_locked_account_is_like_a_wrong_password(
    connection: DirectoryConnection, directory: Directory, ada: UUID
) -> None:
    """The domain controller tells of the lock-out whatever the password, so it says nothing about who asks."""
    directory.modify(ada, lockoutTime=filetime(-1))
    assert reason_of("ada.lovelace", "wrong") == "wrong name or password"
    assert reason_of("ada.lovelace") == "wrong name or password"


def test_the_gateway_stops_before_the_domain_locks(
    connection: DirectoryConnection, directory: Directory, ada: UUID, strict: None
) -> None:
    for name in ("ada.lovelace", "ADA.Lovelace", "ada@corp.example.test"):  # one person, however they are spelled
        assert reason_of(name, "wrong") == "wrong name or password"
    for name in ("CORP\\ada.lovelace", "Ada@Corp.Example.Test"):
        assert reason_of(name, "wrong") == "sign-in paused before the directory locks the account"
    with capture_logs() as logs:
        sign_in("ada.lovelace")
    (line,) = [line for line in logs if line["event"] == "credential refused"]
    assert line["reason"] == "sign-in paused before the directory locks the account"
    assert (line["directory"], line["object_guid"]) == ("corp", str(ada))
    assert counted(directory, ada) == 3
    assert directory.can_sign_in(ada, PASSWORD)
    # Signing in elsewhere has told the domain controller to begin anew; here the failures still stand.
    assert reason_of("ada.lovelace") == "sign-in paused before the directory locks the account"
    for counted_here in (FailedSignIn, PasswordAttempt):
        counted_here.objects.update(at=timezone.now() - timedelta(minutes=30))
    assert reason_of("ada.lovelace") is None


def test_failures_elsewhere_count_too(
    connection: DirectoryConnection, directory: Directory, ada: UUID, strict: None
) -> None:
    assert reason_of("ada.lovelace", "wrong") == "wrong name or password"
    for _ in range(2):
        assert not directory.can_sign_in(ada, "of an old telephone")
    assert reason_of("ada.lovelace") == "sign-in paused before the directory locks the account"
    assert directory.can_sign_in(ada, PASSWORD)
    assert reason_of("ada.lovelace") is None


def test_a_right_password_begins_the_count_anew(
    connection: DirectoryConnection, directory: Directory, ada: UUID, strict: None
) -> None:
    for _ in range(3):
        for _ in range(2):
            assert reason_of("ada.lovelace", "wrong") == "wrong name or password"
        assert reason_of("ada.lovelace") is None
    # The gateway's own limit goes on counting: ten failures of a name within a quarter of an hour.
    assert FailedSignIn.objects.count() == 6


def test_the_domains_own_threshold_counts_without_a_finer_one(
    connection: DirectoryConnection, directory: Directory, ada: UUID
) -> None:
    threshold = directory.text(directory.base_dn, "lockoutThreshold")
    directory.modify(directory.base_dn, lockoutThreshold="3")
    try:
        assert reason_of("ada.lovelace", "wrong") == "wrong name or password"
        assert reason_of("ada.lovelace", "wrong") == "sign-in paused before the directory locks the account"
        assert reason_of("nobody", "wrong") == "wrong name or password"
        assert reason_of("nobody", "wrong") == "sign-in paused before the directory locks the account"
        directory.modify(directory.base_dn, lockoutThreshold="0")  # nothing is ever locked
        assert reason_of("ada.lovelace") is None
    finally:
        directory.modify(directory.base_dn, lockoutThreshold=threshold)


@pytest.mark.parametrize("name", ["Ada Lovelace", "ada.lovelace@corp.example.test", "{dn}", "{{{guid}}}", "CORP/ada"])
def test_no_other_name_of_the_account_gets_past_the_count(
    name: str, connection: DirectoryConnection, directory: Directory, ada: UUID
) -> None:
    """AD takes many names in a bind: what is not looked up by us must not reach it."""
    assert reason_of(name.format(dn=directory.dn(ada), guid=ada), "wrong") == "wrong name or password"
    assert counted(directory, ada) == 0


def test_many_at_once_do_not_lock_the_account(
    transactional_db: None,
    domain: Domain,
    directory: Directory,
    ada: UUID,
    strict: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_connection(domain, name="corp")
    assert not directory.can_sign_in(ada, "of an old telephone")
    bind: Any = vars(ldap_connection)["sign_in"]

    def bind_slowly(*arguments: Any) -> Any:
        time.sleep(0.5)  # so that all of them look at the counters before the first one fails
        return bind(*arguments)

    def try_one(number: int) -> int:
        try:
            return sign_in("ada.lovelace", f"guess {number}").status
        finally:
            connections.close_all()

    monkeypatch.setattr(ldap_connection, "sign_in", bind_slowly)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(try_one, range(8))) == {401}
    monkeypatch.undo()
    assert 1 <= counted(directory, ada) <= 3
    assert directory.can_sign_in(ada, PASSWORD)
