"""Looking for tampering in the operations log: every seal, every record, in the order of the chain."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from uuid import UUID

from django.db.models import QuerySet

from audit.chain import FINAL, Entry, agrees, follows, is_authentic, unpack
from audit.models import LogSeal, OperationRecord, SealedAs
from audit.sealing import Head

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `record_id` is None where a seal itself is."""

    record_id: UUID | None
    what: str

    def __str__(self) -> str:
        return f"record {self.record_id} {self.what}" if self.record_id else self.what


@dataclass(slots=True)
class Progress:
    """How much was looked at."""

    seals: int = 0
    records: int = 0
    unsealed: int = 0


def find_tampering(head: Head | None = None, progress: Progress | None = None) -> Iterator[Finding]:
    """What is wrong with the log, first things first. `head` is one that was exported earlier.

    Without one, seals cut off the end together with their records cannot be missed.
    """
    progress = progress or Progress()
    previous: LogSeal | None = None
    head_was_seen = head is None
    for seal in LogSeal.objects.order_by("number").iterator(chunk_size=20):
        expected = previous.number + 1 if previous else 1
        if seal.number != expected:
            yield Finding(None, f"seal {expected} is missing")
        elif not follows(seal, previous):
            yield Finding(None, f"seal {seal.number} was changed")
        if head and seal.number == head["seal"]:
            head_was_seen = seal.mac == head["mac"]
        entries = list(unpack(bytes(seal.entries)))
        yield from _check_entries(seal, entries)
        progress.seals += 1
        progress.records += sum(entry.phase == FINAL for entry in entries)
        previous = seal
    if head and not head_was_seen:
        yield Finding(
            None, f"the log was cut or made anew: seal {head['seal']} of the head is not its seal {head['seal']}"
        )
    yield from _check_others(previous.number if previous else 0, progress)


def _check_entries(seal: LogSeal, entries: list[Entry]) -> Iterator[Finding]:
    """The records of one seal: those it names, and those that claim to be in it."""
    for some in _chunks(entries):
        records = OperationRecord.objects.in_bulk([entry.record_id for entry in some])
        for entry in some:
            record = records.get(entry.record_id)
            if record is None:
                yield Finding(entry.record_id, "was deleted")
            elif not is_authentic(record) or not agrees(entry, record):
                yield Finding(entry.record_id, "was changed")
            elif entry.phase == FINAL and (record.sealed_as, record.seal) != (SealedAs.FINAL, seal.number):
                yield Finding(entry.record_id, f"was taken from seal {seal.number}")
    named = {entry.record_id for entry in entries}
    claiming = OperationRecord.objects.filter(seal=seal.number).order_by("id").values_list("id", flat=True)
    yield from (Finding(found, "was inserted") for found in claiming.iterator() if found not in named)


def _check_others(newest: int, progress: Progress) -> Iterator[Finding]:
    """The records that no seal names: those of the last seconds, and what somebody else put there."""
    for record in _in_order(OperationRecord.objects.filter(seal__isnull=True)):
        if not is_authentic(record):
            yield Finding(record.id, "was inserted or changed")
        elif record.sealed_as is not None:
            yield Finding(record.id, "was taken from its seal")
        else:
            progress.unsealed += 1
    for record in _in_order(OperationRecord.objects.filter(seal__gt=newest)):
        yield Finding(record.id, "is in a seal that is missing")


def _in_order(records: QuerySet[OperationRecord]) -> Iterator[OperationRecord]:
    return records.order_by("id").iterator(chunk_size=_AT_ONCE)


def _chunks(entries: list[Entry]) -> Iterator[list[Entry]]:
    remaining = iter(entries)
    while some := list(islice(remaining, _AT_ONCE)):
        yield some
