"""Removes old records from the operations log so that verification can tell the removal from tampering.

It removes complete, sealed records. Open ones, and those that the gateway did not write, stay. A seal of its own
states under its MAC that all complete records before a moment were removed, and how many, so that any other missing
record is noticed. Then the seals at the beginning of the chain that name nothing which stays are closed (`removals`).

A month that is a partition and of which nothing stays is dropped, which gives its room back; others are removed row by
row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar, cast
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from audit.chain import counting, marks, months, sealing
from audit.chain.months import Month, find_months
from audit.chain.presence import NOTHING
from audit.chain.removals import Removal, find_closed, find_removals
from audit.chain.seals import (
    ENTRY_BYTES,
    FINAL,
    OPEN,
    Entry,
    deletions_allowed,
    digest_entries,
    is_successor,
    removal_entry,
    seal_after,
    unpack,
)
from audit.chain.verification import course_after_last, find_tampering
from audit.identifiers import identifier_bounds
from audit.models import OPEN_OUTCOMES, LogSeal, OperationRecord, SealedAs, UnsealedRecord

RECORDS_AT_ONCE: Final = 10_000
"""Records removed in one transaction, for whose end the writers of the log wait."""
SEALS_AT_ONCE: Final = 500
"""Seals closed in one transaction."""
CLOSED_AFTER: Final = timedelta(days=1)
"""How old a month's end must be for its seals to be closed. By then whoever writes late has written."""
_ATTEMPTS: Final = 10

_Result = TypeVar("_Result")


class NotRemoved(Exception):
    """Why nothing (more) was removed."""


def remove_records(*, before: datetime) -> int:
    """Remove the complete records from before a month; return how many.

    `before` is the first moment (UTC) of that month, not in the future. Each transaction leaves the log consistent, so
    an interrupted removal can simply be started again. Raises NotRemoved, above all if the log was tampered with: the
    evidence must stay.
    """
    if before != _month_of(before) or before > timezone.now():
        raise NotRemoved("Only whole months that are over can be removed.")
    sealing.seal_records()
    course = course_after_last()
    finding = next(find_tampering(course=course), None)
    if finding is not None:
        raise NotRemoved(f"{finding.sentence}. Nothing is removed from it.")
    kept_from, _ = identifier_bounds(before)
    last = course.last_removal()
    if last and last.kept_from > kept_from:
        raise NotRemoved("Records of that month and later ones were removed already.")
    removed = 0
    for month in find_months():
        if month.end is not None and month.end <= kept_from:
            if removal := _drop_month(month, last):
                removed, last = removed + removal.removed, removal
            # Verification relies on ascending removals.
            until = max(month.end, last.kept_from) if last else month.end
            while removal := _remove_some(until, last):
                removed, last = removed + removal.removed, removal
    while removal := _remove_some(kept_from, last):
        removed, last = removed + removal.removed, removal
    if before < timezone.now() - CLOSED_AFTER and not marks.are_wanted():
        _close_seals()
    return removed


def _month_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _remove_some(kept_from: UUID, last: Removal | None) -> Removal | None:
    return _until_sealed(lambda: _remove_oldest(kept_from, last))


def _until_sealed(action: Callable[[], _Result]) -> _Result:
    for _ in range(_ATTEMPTS):
        try:
            with transaction.atomic():
                return action()
        except IntegrityError:  # a worker, which seals every two seconds, took the seal's number
            continue
    raise NotRemoved("The log is being sealed all the time; try again.")


def _drop_month(month: Month, last: Removal | None) -> Removal | None:
    """Drop a partition and all its records; None if there are none, or if one of them or an older one must stay.

    Its records are counted while nobody can add to them, which holds up nobody: they are old. For the drop itself
    everybody waits, for a moment.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {connection.ops.quote_name(month.table)} IN SHARE MODE")
        listed = UnsealedRecord.objects.all()
        records = OperationRecord.objects.filter(id__lt=month.end)
        if month.lowest is not None:
            if _complete().filter(id__lt=month.lowest).exists():
                return None
            listed, records = listed.filter(record_id__gte=month.lowest), records.filter(id__gte=month.lowest)
        if listed.filter(record_id__lt=month.end).exists() or records.filter(outcome__in=OPEN_OUTCOMES).exists():
            return None
        count = records.count()
        if not count and month.table == months.EARLIER:
            return None
        for _ in range(_ATTEMPTS):
            try:
                return months.locked_briefly(lambda cursor: _seal_and_drop(cursor, month, count, last))
            except IntegrityError:  # a worker, which seals every two seconds, took the seal's number
                continue
            except months.NotLocked:
                break
    raise NotRemoved("The log is in use all the time (a backup, for example); try again.")


def _seal_and_drop(cursor: CursorWrapper, month: Month, count: int, last: Removal | None) -> Removal | None:
    removal = None
    if count:
        newest = LogSeal.objects.order_by("-number").first()
        if find_removals(after=last.seal if last else 0):
            raise NotRemoved("Somebody else removes records at this moment.")
        kept_from = cast(UUID, month.end)
        kept_from = max(kept_from, last.kept_from) if last else kept_from
        seal = seal_after(newest, [removal_entry(kept_from, count)], at=timezone.now())
        seal.save(force_insert=True)
        removal = Removal(seal.number, kept_from, count)
    months.drop(cursor, month)
    return removal


def _complete() -> QuerySet[OperationRecord]:
    listed = Exists(UnsealedRecord.objects.filter(record_id=OuterRef("id")))
    return OperationRecord.objects.filter(~listed).exclude(outcome__in=OPEN_OUTCOMES)


def _remove_oldest(kept_from: UUID, last: Removal | None) -> Removal | None:
    """Remove the oldest records below an identifier in the caller's transaction; None if there are none."""
    newest = LogSeal.objects.order_by("-number").first()
    if find_removals(after=last.seal if last else 0):
        raise NotRemoved("Somebody else removes records at this moment.")
    complete = _complete()
    old = complete.filter(id__lt=kept_from).order_by("id")
    beyond = old.values_list("id", flat=True)[RECORDS_AT_ONCE : RECORDS_AT_ONCE + 1].first()
    if beyond is not None:
        kept_from = max(beyond, last.kept_from) if last else beyond  # verification relies on ascending removals
    count = complete.filter(id__lt=kept_from).count()
    if not count:
        return None
    # The seal first, in the order in which workers lock when they seal: otherwise the two could deadlock.
    seal = seal_after(newest, [removal_entry(kept_from, count)], at=timezone.now())
    seal.save(force_insert=True)
    with deletions_allowed():
        deleted, _ = complete.filter(id__lt=kept_from).delete()
        if deleted != count:
            raise NotRemoved("Somebody else deletes records at this moment.")
    return Removal(seal.number, kept_from, count)


@dataclass(frozen=True, slots=True)
class _Closable:
    """So many seals from `first` to `last`, with `complete` records that are gone and entries of `opened` ones."""

    first: int
    last: LogSeal
    seals: int
    opened: list[Entry]
    complete: int


def _close_seals() -> None:
    """Remove the seals at the beginning of the chain that name no complete record which is still there.

    Each transaction leaves the log consistent. Seals whose records statistics have not counted yet stay.
    """
    removals = find_removals()
    kept_from = removals[-1].kept_from if removals else NOTHING
    listed = UnsealedRecord.objects.filter(record_id__lt=kept_from).exclude(sealed_as=SealedAs.REFUSED)
    if not removals or listed.exists():
        return
    kept = set(OperationRecord.objects.filter(id__lt=kept_from).values_list("id", flat=True))
    counted, _ = counting.find_uncounted() or (removals[-1].seal, 0)
    previous, newest = find_closed().last_seal(), removals[-1].seal
    removed = sum(removal.removed for removal in removals)
    while some := _find_closable(previous, kept, kept_from, up_to=counted):
        previous, removed = some.last, removed - some.complete
        if removed < 0:
            raise NotRemoved(
                f"The operations log was tampered with: {-removed} more records are gone than were removed."
            )
        newest = _until_sealed(partial(_close, some, kept_from=kept_from, removed=removed, after=newest))


def _find_closable(previous: LogSeal | None, kept: set[UUID], kept_from: UUID, *, up_to: int) -> _Closable | None:
    seals: list[LogSeal] = []
    opened: dict[UUID, Entry] = {}
    complete, first = 0, previous.number + 1 if previous else 1
    for seal in LogSeal.objects.filter(number__range=(first, up_to)).order_by("number")[:SEALS_AT_ONCE]:
        if not is_successor(seal, previous):
            raise NotRemoved(f"The operations log was tampered with: seal {seal.number} was changed.")
        packed = bytes(seal.entries)
        if packed[:1] in (OPEN, FINAL):
            found = [entry for entry in unpack(packed) if entry.record_id in kept] if kept else []
            is_needed = any(entry.phase == FINAL for entry in found)
            if (
                is_needed or packed[1 - ENTRY_BYTES :][:16] >= kept_from.bytes
            ):  # the last entry has the highest identifier
                break
            opened.update((entry.record_id, entry) for entry in found)
            complete += packed[::ENTRY_BYTES].count(FINAL)
        seals.append(seal)
        previous = seal
    # Those that name no records are worth a digest only in great number, or with others: each is such a one again.
    while seals and len(seals) < SEALS_AT_ONCE and bytes(seals[-1].entries)[:1] not in (OPEN, FINAL):
        seals.pop()
    if not seals:
        return None
    return _Closable(first, seals[-1], len(seals), [opened[record_id] for record_id in sorted(opened)], complete)


def _close(some: _Closable, *, kept_from: UUID, removed: int, after: int) -> int:
    """Close seals in the caller's transaction; return the number of the digest. Open records are sealed anew before."""
    with deletions_allowed(trigger="audit_seals_not_deleted"):
        deleted, _ = LogSeal.objects.filter(number__range=(some.first, some.last.number)).delete()
    if deleted != some.seals or find_removals(after=after):
        raise NotRemoved("Somebody else removes records at this moment.")
    newest = LogSeal.objects.order_by("-number").first() or some.last
    for entries in (some.opened, digest_entries(some.last, kept_from, removed)):
        if entries:
            newest = seal_after(newest, entries, at=timezone.now())
            newest.save(force_insert=True)
    return newest.number
