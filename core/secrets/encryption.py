"""Secrets at rest: authenticated encryption with rotating keys, and a model field that uses it."""

from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models


class UndecryptableSecret(Exception):
    """A stored secret was written with a key that is no longer configured."""


@lru_cache(maxsize=8)
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


def encrypt(text: str) -> str:
    """Encrypt with the first configured key; the result is ASCII text."""
    return _cipher(tuple(settings.ENCRYPTION_KEYS)).encrypt(text.encode()).decode("ascii")


def decrypt(token: str) -> str:
    """Decrypt what `encrypt` made with any configured key; raises UndecryptableSecret."""
    try:
        return _cipher(tuple(settings.ENCRYPTION_KEYS)).decrypt(token.encode("ascii")).decode()
    except InvalidToken as error:
        raise UndecryptableSecret("no configured encryption key opens this secret") from error


def number_of_key(token: str) -> int | None:
    """The place, from 1, of the configured key that opens what `encrypt` made; None when none does."""
    for number, key in enumerate(settings.ENCRYPTION_KEYS, 1):
        try:
            _cipher((key,)).decrypt(token.encode())
        except InvalidToken:
            continue
        return number
    return None


class EncryptedTextField(models.TextField):
    """Text that is encrypted in the database and plain in Python. Cannot be filtered on.

    To a migration it is a column of text, in which it finds what is stored: encrypted.
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
