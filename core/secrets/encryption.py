"""Secrets at rest: authenticated encryption with rotating keys, the model field that uses it, and keyed digests.

Digests are keyed so that somebody who reads the database cannot find the content by trying. They are compared and never
decrypted, so a rotation of keys cannot move them to the new one: each records, or can be tested for, the key it was
made with, and `gateway keys needed` counts them.
"""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.apps import apps
from django.conf import settings
from django.db import connection, models
from django.db.models import F, Model, TextField
from django.db.models.functions import Cast


class UndecryptableSecret(Exception):
    """A stored secret was encrypted with a key that is no longer configured."""


@lru_cache(maxsize=8)
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def encrypt(text: str) -> str:
    """Encrypt with the first configured key; returns ASCII text."""
    return _cipher(tuple(settings.ENCRYPTION_KEYS)).encrypt(text.encode()).decode("ascii")


def decrypt(token: str) -> str:
    """Decrypt what `encrypt` made with any configured key. Raises UndecryptableSecret."""
    try:
        return _cipher(tuple(settings.ENCRYPTION_KEYS)).decrypt(token.encode("ascii")).decode()
    except InvalidToken as error:
        raise UndecryptableSecret("no configured encryption key opens this secret") from error


def key_of_secret(token: str) -> int | None:
    """The number, from 1, of the configured key that decrypts a token; None if none does."""
    for number, key in enumerate(settings.ENCRYPTION_KEYS, 1):
        try:
            _cipher((key,)).decrypt(token.encode())
        except InvalidToken:
            continue
        return number
    return None


class EncryptedTextField(models.TextField):
    """Text that is encrypted in the database and plain in Python. Queries cannot filter by it.

    A migration sees an ordinary text column with the encrypted values.
    """

    def deconstruct(self) -> Any:
        name, _, arguments, options = super().deconstruct()
        return name, "django.db.models.TextField", arguments, options

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        return decrypt(value) if value else value

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return encrypt(value) if value else value

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name not in ("isnull",):
            raise ValueError(f"an encrypted field cannot be compared ({lookup_name})")
        return super().get_lookup(lookup_name)


def digests(purpose: bytes, content: bytes) -> list[str]:
    """The digest of the content under each configured encryption key, 64 hex digits. Store the first."""
    return [_digest(key, purpose, content) for key in settings.ENCRYPTION_KEYS]


def key_of_digest(digest: str, purpose: bytes, content: bytes) -> int | None:
    """The number, from 1, of the configured key under which `digest` is that of the content; None if none."""
    given = digest.encode("utf-8", "surrogatepass")  # a stored value may be anything, and must not raise
    for number, own in enumerate(digests(purpose, content), 1):
        if hmac.compare_digest(own.encode(), given):
            return number
    return None


def name_of_encryption_key(key: str) -> str:
    """An identifier of a key that reveals nothing of it, 16 hex digits."""
    return hmac.new(key.encode(), b"name of an encryption key", "sha256").hexdigest()[:16]


def _digest(encryption_key: str, purpose: bytes, content: bytes) -> str:
    return hmac.new(hmac.digest(encryption_key.encode(), purpose, "sha256"), content, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """One value of an encrypted column; `key` is the number, from 1, of the key that decrypts it, None if none does."""

    model: type[Model]
    field: str
    row: Any
    token: str
    key: int | None

    def __str__(self) -> str:
        return f"{self.field.replace('_', ' ')} of {self.model._meta.verbose_name} {self.row}"


def find_secrets() -> Iterator[StoredSecret]:
    """Every encrypted value in the database. Skips tables that migrations have not created yet."""
    tables = set(connection.introspection.table_names())
    for model in apps.get_models():
        for field in model._meta.local_concrete_fields:
            if isinstance(field, EncryptedTextField) and model._meta.db_table in tables:
                for row, token in _rows(model, field.attname).values_list("pk", "token").iterator():
                    yield StoredSecret(model, field.attname, row, token, key_of_secret(token))


def reencrypt(secret: StoredSecret) -> bool:
    """Encrypt a secret with the first key; False if somebody changed it meanwhile. Raises UndecryptableSecret."""
    unchanged = _rows(secret.model, secret.field).filter(pk=secret.row, token=secret.token)
    return bool(unchanged.update(**{secret.field: decrypt(secret.token)}))


def _rows(model: type[Model], field: str) -> Any:
    """The rows with a value in the field, annotated with the encrypted `token`."""
    # A cast, because reading the field itself would decrypt it.
    return model._base_manager.annotate(token=Cast(F(field), TextField())).filter(token__gt="")
