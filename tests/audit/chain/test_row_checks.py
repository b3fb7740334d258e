"""Rows that the gateway cannot have written: named with what is wrong, and in nobody's way."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.core.management import CommandError
from django.db import connection, transaction
from django.utils import timezone

from audit.chain import sealing
from audit.chain.seals import SEALS, TABLE
from audit.chain.verification import find_tampering
from audit.migrations._append_only import release_records
from audit.models import LogSeal, LogVerification, OperationRecord
from tests.audit.chain.sealed_log import execute, fill, key_of, put_into_list, records_of_seals, verify, write_change

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back"),
    pytest.mark.sqlite,
]

IS_SQLITE = connection.vendor == "sqlite"


@contextmanager
def tampering() -> Iterator[None]:
    """Somebody with SQL access and without guards in the way, until the end of the block."""
    with connection.schema_editor() as editor:
        release_records(apps, editor)
    if IS_SQLITE:
        execute("PRAGMA ignore_check_constraints = ON")
    try:
        with transaction.atomic():
            yield
            transaction.set_rollback(True)
    finally:
        if IS_SQLITE:
            execute("PRAGMA ignore_check_constraints = OFF")


def allow_nothing(table: str, column: str) -> None:
    """Let a column hold no value, and hold none in any row."""
    if IS_SQLITE:
        execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO was_{column}")
        execute(f"ALTER TABLE {table} ADD COLUMN {column} text")
        execute(f"UPDATE {table} SET {column} = was_{column}")
    else:
        execute(f"ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL")


def allow_text(table: str, column: str) -> None:
    """Let a column hold any text; on SQLite every column does."""
    if not IS_SQLITE:
        execute(f"ALTER TABLE {table} ALTER COLUMN {column} DROP DEFAULT, ALTER COLUMN {column} TYPE text")


def put(table: str, column: str, value: object, key: object) -> None:
    execute(f"UPDATE {table} SET {column} = %s WHERE {'id' if table == TABLE else 'number'} = %s", value, key)


def unlike(column: str, value: object) -> Callable[[str, object], str]:
    """A value that is none of the column's type; what is said of it."""

    def spoil(table: str, key: object) -> str:
        allow_text(table, column)
        put(table, column, value, key)
        return column

    return spoil


def missing(column: str) -> Callable[[str, object], str]:
    def spoil(table: str, key: object) -> str:
        allow_nothing(table, column)
        put(table, column, None, key)
        return column

    return spoil


def infinite(column: str) -> Callable[[str, object], str]:
    """A time that PostgreSQL can hold and Python cannot; and one that SQLite alone takes for one."""

    def spoil(table: str, key: object) -> str:
        put(table, column, "2026-13-41 25:00:00" if IS_SQLITE else "infinity", key)
        return column

    return spoil


RECORDS = {
    "changes {": (unlike("changes", "{"), "changes is no JSON"),
    "no changes": (missing("changes"), "changes has no value"),
    "no owner": (missing("owner"), "owner has no value"),
    "no mac": (missing("mac"), "mac has no value"),
    "text for a time": (unlike("at", "yesterday"), "at is no time"),
    "no time that is": (infinite("completed_at"), "completed_at is no time"),
    "text for a UUID": (unlike("target_id", "Ada"), "target_id is no UUID"),
}
SEALED = {
    "no time that is": (infinite("sealed_at"), "sealed_at is no time"),
    "no entries": (missing("entries"), "entries has no value"),
    "no mac": (missing("mac"), "mac has no value"),
}
if IS_SQLITE:  # whose columns take what they are given
    RECORDS["text for a number"] = (unlike("settle_attempts", "many"), "settle_attempts is no integer")
    RECORDS["no text"] = (unlike("owner", b"\xff"), "owner is no text")
    SEALED["text for a number"] = (unlike("records", "many"), "records is no integer")


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_malformed_record_is_named(name: str, is_sealed: bool) -> None:
    spoil, told = RECORDS[name]
    victim, other = fill(2)[1:3]
    if not is_sealed:
        victim = write_change().id
    with tampering():
        spoil(TABLE, key_of(victim))
        put(TABLE, "owner", "somebody", key_of(other))
        # A column that PostgreSQL takes text in gives text for every record.
        found = {UUID(str(item.record_id)): item.complaint for item in find_tampering()}
        assert found[victim] == f"is malformed: {told}"
        assert other in found
        with pytest.raises(CommandError, match="is malformed: "):
            verify()
    assert not list(find_tampering())


@pytest.mark.parametrize("name", SEALED)
def test_a_malformed_seal_is_named(name: str) -> None:
    spoil, told = SEALED[name]
    fill(4)
    spoiled, later = 2, LogSeal.objects.latest("number").number
    assert later > spoiled
    other = records_of_seals(after=later - 1)[-1]
    with tampering():
        spoil(SEALS, spoiled)
        put(TABLE, "owner", "somebody", key_of(other))
        found = [str(item) for item in find_tampering()]
        assert found[:2] == [f"seal {spoiled} is malformed: {told}", f"record {other} was changed"]
        assert not [item for item in found[2:] if "is in no seal" not in item]  # as its entries cannot be read
    assert not list(find_tampering())


def test_a_seal_with_half_an_entry() -> None:
    fill(2)
    with tampering():
        put(SEALS, "entries", b"f12", 1)
        found = [str(item) for item in find_tampering()]
        assert "seal 1 is malformed: entries end in the midst of one" in found


def test_the_last_seal_that_the_mark_tells_of() -> None:
    fill(1)
    newest = LogSeal.objects.latest("number").number
    with tampering():
        infinite("sealed_at")(SEALS, newest)
        put(SEALS, "mac", "ü" * 64, newest)
        told = [str(item) for item in find_tampering()]
        assert told[0] == f"seal {newest} is malformed: sealed_at is no time"
        assert told[1].startswith("the end of the log cannot be read: it was sealed up to seal")


@pytest.mark.parametrize("code", ["", "ü" * 64, "0" * 63])
def test_a_code_that_is_none(code: str) -> None:
    victim = fill(1)[0]
    with tampering():
        put(TABLE, "mac", code, key_of(victim))
        assert {item.record_id for item in find_tampering()} == {victim}


@pytest.mark.skipif(not IS_SQLITE, reason="PostgreSQL has a type for identifiers")
@pytest.mark.parametrize("listed", [True, False])
def test_an_identifier_that_is_none(listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "advance_checkpoint", lambda: None)
    victim = fill(1)[0]
    names = ", ".join(field.column for field in OperationRecord._meta.concrete_fields if field.column != "id")
    for forged in ("no identifier", uuid4().hex.upper(), "\x1b[2J"):
        with tampering():
            execute(
                f"INSERT INTO {TABLE} (id, {names}) SELECT %s, {names} FROM {TABLE} WHERE id = %s",
                forged,
                key_of(victim),
            )
            if not listed:
                execute("DELETE FROM audit_unsealedrecord")
            (found,) = find_tampering()
            assert (
                str(found) == f"record {forged if forged.isprintable() else ascii(forged)} is malformed: id is no UUID"
            )
            put_into_list(victim)
            assert sealing.seal_records() == 1


def test_a_table_that_is_none() -> None:
    fill(1)
    with tampering():
        execute(f"ALTER TABLE {TABLE} RENAME COLUMN owner TO landlord")
        with pytest.raises(CommandError, match=r"cannot be verified to its end|owner is no text"), transaction.atomic():
            verify()


def test_it_is_noted_for_the_console() -> None:
    victim = fill(1)[0]
    with tampering():
        infinite("completed_at")(TABLE, key_of(victim))
        with pytest.raises(CommandError):
            verify()
        assert LogVerification.objects.get().finding == f"record {victim} is malformed: completed_at is no time"


def test_sealing_goes_on() -> None:
    victim, others = write_change().id, [write_change().id for _ in range(3)]
    with tampering():
        infinite("settle_at")(TABLE, key_of(victim))
        OperationRecord.objects.filter(id__in=others).update(settle_at=timezone.now() + timedelta(hours=1))
        assert sealing.seal_records() == 3
        assert [item.record_id for item in find_tampering()] == [str(victim)]
