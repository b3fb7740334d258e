"""A log with seals, for tests that tamper with it and have it verified."""

from io import StringIO
from typing import Any
from uuid import UUID, uuid4

from django.core.management import call_command
from django.db import connection

from audit import log
from audit.chain import sealing
from audit.models import OperationRecord
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
