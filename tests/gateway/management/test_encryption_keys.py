"""Exchanging the encryption keys: every secret comes under the new one, whichever table has it."""

import base64
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.conf import LazySettings
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from audit.models import WebhookEndpoint
from core.secrets.encryption import EncryptedTextField, find_secrets, reencrypt
from directory.models import DirectoryConnection
from keys.models import SecondFactor
from tests.support.cast import make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

NEW = base64.urlsafe_b64encode(b"the-new-encryption-key-of-tests!").decode()


def rotate(**options: Any) -> str:
    out = StringIO()
    call_command("rotate_encryption_keys", stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def secrets() -> list[Any]:
    """One of most kinds, under the key of the tests."""
    return [
        DirectoryConnection.objects.create(
            name="corp", urls=["ldaps://x"], base_dn="DC=x", bind_dn="CN=x", bind_password="of the directory"
        ),
        WebhookEndpoint.objects.create(name="hook", url="https://x.test/", events=["changes"], secret="of a hook"),
        SecondFactor.objects.create(person=make_person(), secret="A" * 32, confirmed_at=timezone.now()),
    ]


def plain(rows: list[Any]) -> list[str]:
    for row in rows:
        row.refresh_from_db()
    return [rows[0].bind_password, rows[1].secret, rows[2].secret]


def test_every_secret_comes_under_the_first_key(secrets: list[Any], settings: LazySettings) -> None:
    before, old = plain(secrets), settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [NEW, *old]
    assert {secret.key for secret in find_secrets()} == {2}
    checked = rotate(check=True)
    assert f"key 2: bind password of directory connection {secrets[0].pk}" in checked.lower()
    assert "Key 2 is needed by" in checked
    count = len(list(find_secrets()))
    assert rotate() == f"{count} secrets were encrypted anew, 0 were under the first key already.\n"
    assert rotate() == f"0 secrets were encrypted anew, {count} were under the first key already.\n"
    settings.ENCRYPTION_KEYS = [NEW]
    assert plain(secrets) == before
    assert {secret.key for secret in find_secrets()} == {1}


def test_every_encrypted_column_is_looked_at(secrets: list[Any]) -> None:
    """Also one of a table to come: nothing is listed by hand."""
    columns = {
        (model._meta.db_table, field.column)
        for model in apps.get_models()
        for field in model._meta.local_concrete_fields
        if isinstance(field, EncryptedTextField)
    }
    assert len(columns) >= 5
    filled = set()
    with connection.cursor() as cursor:
        for table, column in columns:
            cursor.execute(f"SELECT count(*) FROM {table} WHERE {column} <> ''")  # noqa: S608 - of our own tables
            filled |= {(table, column)} if cursor.fetchone()[0] else set()
    assert {(item.model._meta.db_table, item.field) for item in find_secrets()} == filled


def test_a_key_that_was_dropped_too_early_is_told(secrets: list[Any], settings: LazySettings) -> None:
    old = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [NEW]
    told = StringIO()
    call_command("check", databases=["default"], stderr=told)
    assert f"bind password of directory connection {secrets[0].pk}" in told.getvalue().lower()
    assert f"secret of webhook endpoint {secrets[1].pk}" in told.getvalue().lower()
    with pytest.raises(CommandError, match="No configured key opens"):
        rotate()
    settings.ENCRYPTION_KEYS = [NEW, *old]
    rotate()
    settings.ENCRYPTION_KEYS = [NEW]
    told = StringIO()
    call_command("check", databases=["default"], stderr=told)
    assert "opens" not in told.getvalue()


@pytest.mark.django_db
def test_what_a_worker_checks_at_its_start_needs_no_database(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        run_checks()


def test_a_secret_that_is_changed_meanwhile_is_left_alone(secrets: list[Any], settings: LazySettings) -> None:
    settings.ENCRYPTION_KEYS = [NEW, *settings.ENCRYPTION_KEYS]
    found = list(find_secrets())
    secrets[0].bind_password = "a later one"
    secrets[0].bind_password_given = True
    secrets[0].save()
    for secret in found:
        reencrypt(secret)
    assert plain(secrets)[0] == "a later one"
