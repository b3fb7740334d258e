"""Seals the operations log: a worker does so every two seconds, without holding up the writers.

Whoever writes many reads at once seals them itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone

from audit.chain import counting, marks
from audit.chain.checkpoint import advance_checkpoint, is_checkpoint_behind
from audit.chain.row_checks import UNREADABLE, MalformedRow, read_by_key, read_keys
from audit.chain.seals import FINAL, OPEN, Entry, entry_of, is_authentic, seal_after
from audit.chain.verification import find_missing_keys
from audit.models import OPEN_OUTCOMES, LogSeal, OperationRecord, SealedAs, UnsealedRecord
from audit.webhooks.events import enqueue_records
from core import tracing

_logger = structlog.stdlib.get_logger(__name__)

RECORDS_OF_A_SEAL: Final = 250
"""Few enough that on SQLite, which has one writer at a time, nobody waits for more than some 10 ms."""


@dataclass(frozen=True, slots=True)
class Unsealed:
    """How many records wait for a seal, when the `oldest` was made, and how many were `refused` one."""

    count: int
    oldest: datetime | None
    refused: int


def seal_records() -> int:
    """Seal new records and those that were sealed open and are complete now; return how many were sealed.

    Any number of processes may seal at once: only one of them can insert a seal's number, and the others stop.
    """
    sealed, marking = 0, marks.are_wanted()
    try:
        while count := _seal_some(marking=marking):
            sealed += count
    except IntegrityError:
        _logger.debug("another process is sealing")
    if sealed or is_checkpoint_behind():
        advance_checkpoint()
    counting.catch_up()
    return sealed


def _seal_some(*, marking: bool) -> int:
    """Seal the oldest records that are due; return how many. Raises IntegrityError if another process was faster.

    It reads and computes before the transaction, which on SQLite holds up every writer. Changes in between do no harm:
    a record completed meanwhile is sealed as the open one that was read, and stays in the list. The last seal is read
    before the list: two processes that see the same records then try the same number, and one of them fails.
    """
    last = LogSeal.objects.order_by("-number").first()
    records, malformed = _read_due()
    for row in malformed:
        _logger.error("a record of the operations log cannot be sealed", record=row.key, reason=row.complaint)
    if not records:
        return 0
    authentic = [record for record in records if is_authentic(record)]
    forged = set(records).difference(authentic)
    if forged and (missing := next(find_missing_keys(), None)):
        # They may have been written just before a rotation of keys that lost the old one: wait until it is back.
        _logger.error("records cannot be sealed", reason=str(missing), records=len(forged))
        forged, records = set(), authentic
        if not authentic:
            return 0
    entries = [entry_of(record) for record in authentic]
    seal = seal_after(last, entries, at=timezone.now())
    ids = {phase: [entry.record_id for entry in entries if entry.phase == phase] for phase in (OPEN, FINAL)}
    refused = [record.id for record in forged]
    with tracing.span("seal records"), transaction.atomic():
        if entries:
            seal.save(force_insert=True)
            enqueue_records(record for record, entry in zip(authentic, entries, strict=True) if entry.phase == FINAL)
        if marking:  # first, in the order of locks of whoever completes records
            marks.mark(ids[OPEN], SealedAs.OPEN, seal.number)
            marks.mark(ids[FINAL], SealedAs.FINAL, seal.number)
            marks.mark(refused, SealedAs.REFUSED)
        state = _lock_listed(ids[OPEN])
        still_open = [record_id for record_id, sealed_as in state.items() if sealed_as == SealedAs.OPEN]
        UnsealedRecord.objects.filter(record_id__in=[*ids[FINAL], *still_open]).delete()
        UnsealedRecord.objects.filter(record_id__in=refused).update(sealed_as=SealedAs.REFUSED)
        if entries:
            complete = (record for record in authentic if record.outcome not in OPEN_OUTCOMES)
            counting.count_sealed(seal, map(counting.facts_of, complete))
    for record in forged:
        _logger.error("a record of the operations log is not the gateway's", record=str(record.id))
    return len(records) - (len(ids[OPEN]) - len(state))


def seal_new(entries: Sequence[Entry], records: Sequence[Mapping[str, Any]]) -> None:
    """Seal complete records in the transaction that inserts them, which saves a worker from reading them.

    It leaves them to a worker if another process seals at this moment, or the release before may come back.
    """
    if marks.are_wanted():
        return
    last = LogSeal.objects.order_by("-number").defer("entries").first()
    seal = seal_after(last, entries, at=timezone.now())
    try:
        with transaction.atomic():
            seal.save(force_insert=True)
    except IntegrityError:
        return
    UnsealedRecord.objects.filter(record_id__in=[entry.record_id for entry in entries]).delete()
    enqueue_records(OperationRecord(**record) for record in records)
    counting.count_sealed(seal, (tuple(record.get(name) or "" for name in counting.FACTS) for record in records))


def _lock_listed(record_ids: list[UUID]) -> dict[UUID, str]:
    """Lock records in the list, by identifier as what they are to be sealed, except those being completed right now.

    Waiting for these, who may wait for us, could be a deadlock. They are sealed again in their next state.
    """
    listed = UnsealedRecord.objects.filter(record_id__in=record_ids).select_for_update(skip_locked=True)
    return dict(listed.values_list("record_id", "sealed_as")) if record_ids else {}


def _read_due() -> tuple[list[OperationRecord], list[MalformedRow]]:
    """The oldest records that are due, and malformed rows among them, which verification reports.

    Malformed rows, and those of records that are gone, stay where they are and do not keep others from being sealed.
    """
    due = _due_records()
    try:
        keys = list(due.values_list("record_id", flat=True)[:RECORDS_OF_A_SEAL])
        records = list(OperationRecord.objects.filter(id__in=keys).order_by("id"))
        if len(records) == len(keys):
            return records, []
    except UNREADABLE:
        pass
    found: list[OperationRecord] = []
    malformed: list[MalformedRow] = []
    listed = read_keys(due)
    while some := list(islice(listed, RECORDS_OF_A_SEAL)):
        malformed += [key for key in some if isinstance(key, MalformedRow)]
        rows = read_by_key(OperationRecord, [key for key in some if not isinstance(key, MalformedRow)])
        malformed += [row for row in rows.values() if isinstance(row, MalformedRow)]
        found += [row for row in rows.values() if not isinstance(row, MalformedRow)]
    return sorted(found, key=lambda record: record.id)[:RECORDS_OF_A_SEAL], malformed


def _due_records() -> QuerySet[UnsealedRecord]:
    """The list of records that are not sealed in their present state, oldest first."""
    return UnsealedRecord.objects.exclude(sealed_as=SealedAs.REFUSED).order_by("record_id")


def find_unsealed() -> Unsealed:
    """Count the records that are to be sealed: few, as long as a worker seals."""
    refused = Q(sealed_as=SealedAs.REFUSED)
    counted = UnsealedRecord.objects.aggregate(count=Count("pk", filter=~refused), refused=Count("pk", filter=refused))
    oldest = OperationRecord.objects.filter(id__in=_due_records().values("record_id")[:RECORDS_OF_A_SEAL])
    try:
        return Unsealed(**counted, oldest=oldest.aggregate(at=Min("at"))["at"])
    except UNREADABLE:
        return Unsealed(**counted, oldest=None)
