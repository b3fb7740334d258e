"""Sealing the operations log: every two seconds by a worker, beside the writers and not in their way."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone

from audit.chain.checkpoint import move_mark
from audit.chain.row_checks import UNREADABLE, Malformed, read_rows
from audit.chain.seals import FINAL, OPEN, entry_of, is_authentic, seal_after
from audit.chain.verification import find_missing_keys
from audit.models import OPEN_OUTCOMES, LogSeal, OperationRecord, SealedAs
from audit.webhooks.events import enqueue_records
from core import tracing

_logger = structlog.stdlib.get_logger(__name__)

RECORDS_OF_A_SEAL: Final = 250
"""So few that on SQLite, which has one writer at a time, nobody waits for more than some 10 ms."""


@dataclass(frozen=True, slots=True)
class Unsealed:
    """The records that wait for their first seal, when the oldest was made, and how many were `refused` one."""

    count: int
    oldest: datetime | None
    refused: int


def seal_records() -> int:
    """Seal what is not sealed yet, or was sealed while open and is complete now; how many records were sealed.

    Any number of processes may seal at once: a seal's number is taken once, and who comes second leaves it at that.
    """
    sealed = 0
    try:
        while found := _seal_some():
            sealed += found
    except IntegrityError:
        _logger.debug("another process is sealing")
    if sealed:
        move_mark()
    return sealed


def _seal_some() -> int:
    """Seal the oldest records that are due; how many. Raises IntegrityError when another process has been faster.

    Reading and computing are done before the transaction, which on SQLite holds up every writer. What changes meanwhile
    does no harm: a record completed in between is sealed as the open one it was, and is due again. The last seal is
    read before the records, so that of two processes that see the same ones both take the same number.
    """
    last = LogSeal.objects.order_by("-number").first()
    records, malformed = _read_due()
    for told in malformed:
        _logger.error("a record of the operations log cannot be sealed", record=told.key, reason=told.what)
    if not records:
        return 0
    authentic = [record for record in records if is_authentic(record)]
    forged = set(records).difference(authentic)
    if forged and (missing := next(find_missing_keys(), None)):
        # They may be those of the last seconds before the keys were exchanged, and wait for theirs.
        _logger.error("records cannot be sealed", reason=str(missing), records=len(forged))
        forged, records = set(), authentic
        if not authentic:
            return 0
    entries = [entry_of(record) for record in authentic]
    seal = seal_after(last, entries, at=timezone.now())
    with tracing.span("seal records"), transaction.atomic():
        if entries:
            seal.save(force_insert=True)
            enqueue_records(record for record, entry in zip(authentic, entries, strict=True) if entry.phase == FINAL)
            for phase, state in ((OPEN, SealedAs.OPEN), (FINAL, SealedAs.FINAL)):
                ids = [entry.record_id for entry in entries if entry.phase == phase]
                OperationRecord.objects.filter(id__in=ids).update(seal=seal.number, sealed_as=state)
        OperationRecord.objects.filter(id__in=[record.id for record in forged]).update(sealed_as=SealedAs.REFUSED)
    for record in forged:
        _logger.error("a record of the operations log is not the gateway's", record=str(record.id))
    return len(records)


def _read_due() -> tuple[list[OperationRecord], list[Malformed]]:
    """The oldest records that are due, and what is among them that cannot be read: it stays where it is, and is in the
    way of no other. Whoever verifies the log is told of it.
    """
    due = _due_records()
    try:
        return list(due[:RECORDS_OF_A_SEAL]), []
    except UNREADABLE:
        rows = list(read_rows(due))
    malformed = [row for row in rows if isinstance(row, Malformed)]
    return [row for row in rows if not isinstance(row, Malformed)][:RECORDS_OF_A_SEAL], malformed


def _due_records() -> QuerySet[OperationRecord]:
    """What is not sealed as it is now, the oldest first."""
    # The condition of the index audit_to_seal, word for word: without it SQLite goes through the whole log each time.
    is_indexed = Q(sealed_as__isnull=True) | Q(sealed_as=SealedAs.OPEN)
    has_changed = Q(sealed_as__isnull=True) | ~Q(outcome__in=OPEN_OUTCOMES)
    return OperationRecord.objects.filter(is_indexed & has_changed).order_by("id")


def find_unsealed() -> Unsealed:
    """What no seal holds: little, as long as a worker seals."""
    unsealed = OperationRecord.objects.order_by().filter(seal__isnull=True)
    waiting, refused = Q(sealed_as__isnull=True), Q(sealed_as=SealedAs.REFUSED)
    counted = unsealed.aggregate(
        count=Count("id", filter=waiting), oldest=Min("at", filter=waiting), refused=Count("id", filter=refused)
    )
    return Unsealed(**counted)
