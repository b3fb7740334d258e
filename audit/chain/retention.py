"""Removes old records from the operations log so that verification can tell the removal from tampering.

It removes complete, sealed records. Open ones, and those that the gateway did not write, stay. The seals stay, too:
they are small and keep the chain whole. A seal of its own states under its MAC that all complete records before a
moment were removed, and how many, so that any other missing record is noticed.
"""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from audit.chain import sealing
from audit.chain.seals import deletions_allowed, removal_entry, seal_after
from audit.chain.verification import course_after_last, find_tampering
from audit.chain.walk import Removal, find_removals
from audit.identifiers import identifier_bounds
from audit.models import OPEN_OUTCOMES, LogSeal, OperationRecord, UnsealedRecord

RECORDS_AT_ONCE: Final = 10_000
"""Records removed in one transaction, for whose end the writers of the log wait."""
_ATTEMPTS: Final = 10


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
    finding = next(find_tampering(course=course_after_last()), None)
    if finding is not None:
        raise NotRemoved(f"{finding.sentence}. Nothing is removed from it.")
    kept_from, _ = identifier_bounds(before)
    last = next(reversed(find_removals()), None)
    if last and last.kept_from > kept_from:
        raise NotRemoved("Records of that month and later ones were removed already.")
    removed = 0
    while removal := _remove_some(kept_from, last):
        removed += removal.removed
        last = removal
    return removed


def _month_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _remove_some(kept_from: UUID, last: Removal | None) -> Removal | None:
    for _ in range(_ATTEMPTS):
        try:
            with transaction.atomic():
                return _remove_oldest(kept_from, last)
        except IntegrityError:  # a worker, which seals every two seconds, took the seal's number
            continue
    raise NotRemoved("The log is being sealed all the time; try again.")


def _remove_oldest(kept_from: UUID, last: Removal | None) -> Removal | None:
    """Remove the oldest records below an identifier in the caller's transaction; None if there are none."""
    newest = LogSeal.objects.order_by("-number").first()
    if find_removals(after=last.seal if last else 0):
        raise NotRemoved("Somebody else removes records at this moment.")
    listed = Exists(UnsealedRecord.objects.filter(record_id=OuterRef("id")))
    complete = OperationRecord.objects.filter(~listed).exclude(outcome__in=OPEN_OUTCOMES)
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
