"""What each key is needed for: by the database, by answers that are kept, and by the backups that were made."""

import ast
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.utils import timezone

from approvals.models import ChangeRequest, Status
from approvals.review.decisions import approve
from core.secrets.encryption import name_of_encryption_key
from core.secrets.keyring import new_encryption_key
from gateway.management import backups
from gateway.models import IdempotencyRecord, NotedBackup
from lab.commands import PROJECT
from tests.approvals.proposals import IN_CONSOLE, hold
from tests.support.house import sources

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


def needed(*options: str) -> list[str]:
    out = StringIO()
    call_command("needed_keys", *options, stdout=out)
    return out.getvalue().splitlines()


def exchange(settings: LazySettings) -> None:
    """As the documentation says: a new key in front, and every secret under it."""
    settings.ENCRYPTION_KEYS = [new_encryption_key(), *settings.ENCRYPTION_KEYS]
    call_command("rotate_encryption_keys", stdout=StringIO())


def test_a_key_of_nothing_is_not_needed(settings: LazySettings) -> None:
    exchange(settings)
    assert needed()[1] == "Encryption key 2 is not needed now."


def test_a_waiting_change_needs_the_key_of_its_digest(settings: LazySettings) -> None:
    request = hold()
    exchange(settings)
    assert "Encryption key 2 vouches for 1 undecided or unfinished change requests." in needed()
    approve(IN_CONSOLE, request.id, digest=request.digest)
    assert ChangeRequest.objects.get().has_intact_input()
    ChangeRequest.objects.update(status=Status.APPLIED)
    assert "Encryption key 2 is not needed now." in needed()


def test_answers_that_are_kept_need_theirs_for_a_day(settings: LazySettings) -> None:
    now = timezone.now()
    record = IdempotencyRecord.objects.create(
        credential_id="x",
        key="one",
        fingerprint="0" * 64,
        encryption_key=name_of_encryption_key(settings.ENCRYPTION_KEYS[0]),
        created_at=now,
        lease_until=now,
    )
    exchange(settings)
    assert "Encryption key 2 knows 1 requests by their idempotency keys, for 24 hours." in needed()
    IdempotencyRecord.objects.filter(pk=record.pk).update(created_at=now - timedelta(hours=25))
    assert "Encryption key 2 is not needed now." in needed()


def test_a_backup_needs_its_keys_until_it_is_gone(
    settings: LazySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups, "_dump", lambda file: file.touch())
    backups.make(tmp_path)
    exchange(settings)
    settings.LOG_KEYS = ["n" * 40, *settings.LOG_KEYS]
    today = f"{timezone.now():%Y-%m-%d}"
    kept = f"restores 1 backups, made {today} to {today}: keep it as long as these."
    encryption, log = needed()[1], needed()[3]
    assert (encryption, log[:10]) == (f"Encryption key 2 {kept}", "Log key 2 ")
    assert log.endswith(kept)
    tomorrow = timezone.now() + timedelta(days=1)
    assert needed(f"--forget-backups-before={tomorrow:%Y-%m-%d}")[0] == "1 backups were forgotten."
    assert needed()[1] == "Encryption key 2 is not needed now."


def test_a_backup_that_expires_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups, "_dump", lambda file: file.touch())
    made = backups.make(tmp_path)
    later = made.with_name(f"gateway-29990101T000000Z{made.suffix}")
    later.touch()
    assert backups.expire(tmp_path, 1) == 1
    assert not NotedBackup.objects.exists()


def test_a_key_that_is_missing_is_an_error(settings: LazySettings) -> None:
    hold()
    settings.ENCRYPTION_KEYS = [new_encryption_key()]
    with pytest.raises(CommandError, match="opens"):
        needed()


def test_what_is_under_an_encryption_key_is_counted() -> None:
    """Whoever uses these keys elsewhere makes something that `keys needed` knows nothing of."""
    allowed = {
        "core/secrets/encryption.py",
        "gateway/management/backups.py",
        "gateway/management/commands/needed_keys.py",
        "gateway/surfaces/idempotency.py",
        "gateway/settings.py",
    }
    users = {
        str(file.relative_to(PROJECT))
        for file in sources()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) == "ENCRYPTION_KEYS"
    }
    assert users == allowed
