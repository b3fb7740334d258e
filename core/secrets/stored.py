"""Every secret that the database holds encrypted: which key opens it, and how it comes under the first one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.models import F, Model, TextField
from django.db.models.functions import Cast

from core.secrets.encryption import EncryptedTextField, decrypt, number_of_key


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """One value of an encrypted column. `key` is the place of the key that opens it, from 1; None when none does."""

    model: type[Model]
    field: str
    row: Any
    token: str
    key: int | None

    def __str__(self) -> str:
        return f"{self.field.replace('_', ' ')} of {self.model._meta.verbose_name} {self.row}"


def find_secrets() -> Iterator[StoredSecret]:
    """All of them. Tables that are not there yet hold none."""
    tables = set(connection.introspection.table_names())
    for model in apps.get_models():
        for field in model._meta.local_concrete_fields:
            if isinstance(field, EncryptedTextField) and model._meta.db_table in tables:
                for row, token in _rows(model, field.attname).values_list("pk", "token").iterator():
                    yield StoredSecret(model, field.attname, row, token, number_of_key(token))


def put_under_first_key(secret: StoredSecret) -> bool:
    """Encrypt a secret anew; whether it was still the same one. Raises UndecryptableSecret."""
    same = _rows(secret.model, secret.field).filter(pk=secret.row, token=secret.token)
    return bool(same.update(**{secret.field: decrypt(secret.token)}))


def _rows(model: type[Model], field: str) -> Any:
    """Rows with a value in the field, as it lies in the database."""
    # Not the field itself: reading it decrypts it.
    return model._base_manager.annotate(token=Cast(F(field), TextField())).filter(token__gt="")
