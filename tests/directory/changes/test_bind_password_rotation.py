"""Rotating the bind password: nobody knows the new one, and a kill at any moment loses nothing."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from active_directory import Client, OutcomeUnknown, Write
from audit.model_changes.recording import call_of_command
from audit.models import OperationRecord
from directory.changes import bind_password_rotation
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.queries.connection_test import try_connection
from gateway.tasks import sweep
from lab.directory import PASSWORD, Directory, random_name
from lab.domain import Domain
from tests.support.cast import Answer, Console, make_connection, make_person
from tests.support.mishaps import be_patient_with_lost_answers

NEW = "Engine-Number-2-and-more"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes are none here that would have to learn of a revision."""
    monkeypatch.setattr(bind_password_rotation, "REVISION_SECONDS", -0.5)
    monkeypatch.setattr("directory.lookup.connection.REVISION_SECONDS", 0)


@pytest.fixture
def account(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Gateway", parent=organizational_unit, password=PASSWORD)


@pytest.fixture
def may_change_at_once(directory: Directory, account: UUID) -> Iterator[None]:
    """The domain asks for a day between two changes; a policy of its own asks nothing of this account."""
    dn = f"CN={random_name('policy')},CN=Password Settings Container,CN=System,{directory.base_dn}"
    ages = {"msDS-MinimumPasswordAge": "0", "msDS-MaximumPasswordAge": str(-(2**63))}
    lockout = {"msDS-LockoutObservationWindow": "-600000000", "msDS-LockoutDuration": "-600000000"}
    directory.add(
        dn,
        {
            "objectClass": "msDS-PasswordSettings",
            "msDS-PasswordSettingsPrecedence": "10",
            "msDS-PasswordReversibleEncryptionEnabled": "FALSE",
            "msDS-PasswordHistoryLength": "0",
            "msDS-PasswordComplexityEnabled": "TRUE",
            "msDS-MinimumPasswordLength": "12",
            "msDS-LockoutThreshold": "0",
            "msDS-PSOAppliesTo": directory.dn(account),
            **ages,
            **lockout,
        },
    )
    yield
    directory.delete(dn)


@pytest.fixture
def row(db: None, domain: Domain, directory: Directory, account: UUID) -> DirectoryConnection:
    return make_connection(domain, bind_dn=directory.dn(account), bind_password=PASSWORD)


@pytest.fixture
def rotator(db: None) -> Console:
    return Console(make_person(may=["directory.view_directoryconnection", "directory.rotate_bind_password"]))


def rotate(console: Console, row: DirectoryConnection) -> Answer:
    return console.post(f"/rest/directories/{row.id}/rotate-password")


def record_of(account: UUID) -> OperationRecord:
    return OperationRecord.objects.get(operation="directories.rotate-password", target_id=account)


@pytest.mark.usefixtures("may_change_at_once")
@pytest.mark.parametrize("named", ["dn", "userPrincipalName", "implicit"])
def test_it_works(rotator: Console, row: DirectoryConnection, directory: Directory, account: UUID, named: str) -> None:
    if named != "dn":
        name = f"gateway-{account.hex[:6]}@corp.example.test"
        if named == "userPrincipalName":
            directory.modify(account, userPrincipalName=name)
        else:
            name = f"{directory.text(account, 'sAMAccountName')}@corp.example.test"
        row.bind_dn, row.bind_password_given = name, True
        row.save()
    answer = rotate(rotator, row)
    assert answer.status == 200, answer
    assert answer.body["passwordRotatedAt"]
    row.refresh_from_db()
    assert len(row.bind_password) == 64
    assert row.bind_password not in str(answer.body)
    assert row.is_bind_password_sealed
    assert (row.pending_bind_password, row.pending_since) == ("", None)
    assert directory.can_sign_in(account, row.bind_password)
    assert try_connection(call_of_command("test"), row)["ok"]
    assert get_client(row.id).read(account, ("objectGUID",)).guid == account
    record = record_of(account)
    assert (record.outcome, record.directory_id) == ("succeeded", row.id)
    assert record.changes == [{"attribute": "unicodePwd", "before": ["<secret>"], "after": ["<secret>"]}]
    assert rotate(rotator, row).status == 200, "and again"


def test_it_needs_its_own_permission(row: DirectoryConnection, directory: Directory, account: UUID) -> None:
    for permission in ("change_directoryconnection", "add_directoryconnection", "manage_protected", "reset_password"):
        assert rotate(Console(make_person(may=[f"directory.{permission}"])), row).status == 403
    assert directory.can_sign_in(account, PASSWORD)


def test_the_minimum_age_stands_in_the_way(
    rotator: Console, row: DirectoryConnection, directory: Directory, account: UUID
) -> None:
    answer = rotate(rotator, row)
    assert (answer.status, answer.code) == (422, "AD.Password.PolicyViolation")
    assert "less than the minimum age ago" in answer.body["detail"]
    assert directory.can_sign_in(account, PASSWORD)
    row.refresh_from_db()
    assert (row.bind_password, row.pending_bind_password, row.pending_since) == (PASSWORD, "", None)
    assert (record_of(account).outcome, record_of(account).code) == ("failed", "AD.Password.PolicyViolation")
    assert try_connection(call_of_command("test"), row)["ok"]


def test_a_password_for_other_servers_is_not_rotated(rotator: Console, row: DirectoryConnection) -> None:
    DirectoryConnection.objects.update(urls=["ldaps://127.0.0.1:1"])
    answer = rotate(rotator, row)
    assert (answer.status, "give it anew" in answer.body["detail"]) == (409, True)


def test_one_at_a_time(rotator: Console, row: DirectoryConnection) -> None:
    DirectoryConnection.objects.update(pending_bind_password=NEW, pending_since=timezone.now())
    answer = rotate(rotator, row)
    assert (answer.status, answer.code) == (409, "Request.Conflict")


class Killed(BaseException):
    """What ends the process."""


@pytest.mark.usefixtures("may_change_at_once")
@pytest.mark.parametrize("is_applied", [True, False])
def test_a_kill_around_the_write_loses_nothing(
    rotator: Console,
    row: DirectoryConnection,
    directory: Directory,
    account: UUID,
    monkeypatch: pytest.MonkeyPatch,
    is_applied: bool,
) -> None:
    write = Client.write

    def killed(client: Client, change: Write) -> str:
        if is_applied:
            write(client, change)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Client, "write", killed)
        with pytest.raises(Killed):
            rotate(rotator, row)
    row.refresh_from_db()
    assert row.pending_bind_password
    assert directory.can_sign_in(account, row.pending_bind_password) is is_applied
    assert get_client(row.id).read(account, ("objectGUID",)).guid == account, "whichever it is now"
    assert rotate(rotator, row).status == 409, "it may still be under way"

    long_ago = timezone.now() - timedelta(minutes=10)
    DirectoryConnection.objects.update(pending_since=long_ago)
    bind_password_rotation.settle_interrupted_rotations()
    settled = DirectoryConnection.objects.get(pk=row.pk)
    assert settled.pending_since is None
    assert settled.bind_password == (row.pending_bind_password if is_applied else PASSWORD)
    assert directory.can_sign_in(account, settled.bind_password)
    assert rotate(rotator, settled).status == 200


@pytest.mark.usefixtures("may_change_at_once")
@pytest.mark.parametrize("is_applied", [True, False])
def test_a_lost_answer_is_looked_for(
    rotator: Console,
    row: DirectoryConnection,
    directory: Directory,
    account: UUID,
    monkeypatch: pytest.MonkeyPatch,
    is_applied: bool,
) -> None:
    be_patient_with_lost_answers(monkeypatch)
    write = Client.write

    def lost(client: Client, change: Write) -> str:
        if is_applied:
            write(client, change)
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(Client, "write", lost)
    assert rotate(rotator, row).status == (200 if is_applied else 503)
    row.refresh_from_db()
    assert (row.bind_password == PASSWORD, row.pending_since) == (not is_applied, None)
    assert directory.can_sign_in(account, row.bind_password)
    assert record_of(account).outcome == ("succeeded" if is_applied else "failed")


@pytest.mark.usefixtures("may_change_at_once")
def test_a_server_that_does_not_know_the_new_one_yet_takes_the_old_one(
    rotator: Console, row: DirectoryConnection, directory: Directory, account: UUID
) -> None:
    assert rotate(rotator, row).status == 200
    directory.modify(account, unicodePwd=f'"{PASSWORD}"'.encode("utf-16-le"))
    assert get_client(row.id).read(account, ("objectGUID",)).guid == account
    DirectoryConnection.objects.update(rotated_at=timezone.now() - timedelta(hours=2), revision=100)
    assert not try_connection(call_of_command("test"), DirectoryConnection.objects.get())["ok"], "but not for ever"
    sweep()
    assert DirectoryConnection.objects.get().previous_bind_password == ""


@pytest.mark.usefixtures("may_change_at_once")
def test_a_password_given_by_somebody_ends_a_rotation(
    rotator: Console, row: DirectoryConnection, directory: Directory
) -> None:
    assert rotate(rotator, row).status == 200
    DirectoryConnection.objects.update(pending_bind_password=NEW, pending_since=timezone.now())
    editor = Console(make_person(superuser=True))
    body: dict[str, Any] = {"bindPassword": "given", "urls": ["ldaps://127.0.0.1:1"]}
    assert editor.patch(f"/rest/directories/{row.id}", body).status == 200
    row.refresh_from_db()
    assert (row.pending_bind_password, row.previous_bind_password, row.pending_since) == ("", "", None)
    assert get_client(row.id).settings.other_passwords == ()


@pytest.mark.usefixtures("may_change_at_once")
def test_in_the_console(row: DirectoryConnection, directory: Directory, account: UUID, rotator: Console) -> None:
    path = f"/console/connections/{row.id}"
    reader = Console(make_person(may=["directory.view_directoryconnection"]))
    assert "Rotate" not in reader.get(path).body.decode()
    assert reader.submit(f"{path}/rotate-password").status == 403
    assert "somebody knows it" in rotator.get(path).body.decode()
    assert rotator.submit(f"{path}/rotate-password").status == 302
    assert "The gateway last changed it" in rotator.get(path).body.decode()
    row.refresh_from_db()
    assert directory.can_sign_in(account, row.bind_password)
    DirectoryConnection.objects.update(pending_bind_password=NEW, pending_since=timezone.now())
    refused = rotator.submit(f"{path}/rotate-password")
    assert (refused.status, "is being rotated" in refused.body.decode()) == (409, True)
