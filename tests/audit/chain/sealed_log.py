"""A log with seals, for tests that tamper with it and have it verified."""

from io import StringIO
from typing import Any
from uuid import UUID, uuid4

from django.core.management import call_command
from django.db import connection

from audit import log
from audit.chain import sealing
from audit.chain.seals import SEALS, TABLE, unpack
from audit.models import LogSeal, OperationRecord, UnsealedRecord
from tests.audit.calls import CALL

TARGET = log.TargetRef(id=uuid4(), kind="user", distinguished_name="CN=Ada ü,DC=corp")
CHANGES = [{"attribute": "mail", "before": ["a@example.test"], "after": ["b@example.test"]}]


def write_change(number: int = 0, **facts: Any) -> OperationRecord:
    intent = log.Intent(
        operation="users.update", target=TARGET, changes=CHANGES, evidence={"mail": [number]}, batch_index=number
    )
    return log.record_intent(CALL, intent)


def fill(changes: int) -> list[UUID]:
    """Changes and refusals, sealed in several seals, some of them open when they are sealed first."""
    written = []
    for number in range(changes):
        record = write_change(number)
        if number % 3 == 0:
            sealing.seal_records()
        log.complete(record.id, outcome="succeeded", server="dc1")
        written += [record.id, log.record_refusal(CALL, operation="users.delete", code="Auth.Forbidden").id]
    sealing.seal_records()
    return written


def key_of(record_id: UUID) -> str:
    return record_id.hex if connection.vendor == "sqlite" else str(record_id)


def execute(sql: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)


def verify(**options: Any) -> str:
    out = StringIO()
    call_command("verify_operations_log", stdout=out, **options)
    return out.getvalue()


def records_of_seals(*, after: int = 0) -> list[UUID]:
    """The records that the seals after one name."""
    packed = LogSeal.objects.filter(number__gt=after).order_by("number").values_list("entries", flat=True)
    return [entry.record_id for entries in packed for entry in unpack(bytes(entries))]


def cut_off(*, after: int) -> None:
    """Delete the newest seals and their records, as if they had never been."""
    for record_id in records_of_seals(after=after):
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(record_id))  # noqa: S608
    execute(f"DELETE FROM {SEALS} WHERE number > %s", after)  # noqa: S608


def unlist(record_id: UUID) -> None:
    UnsealedRecord.objects.filter(record_id=record_id).delete()


def put_into_list(record_id: UUID) -> None:
    unlist(record_id)
    UnsealedRecord.objects.create(record_id=record_id, sealed_as="final")
