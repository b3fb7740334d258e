"""Removing old records from the operations log, in a way that whoever verifies it can tell from theft.

Complete, sealed records go; what is still open, and what is not the gateway's, stays. The seals stay too: they are
small, and the chain holds. A seal of its own says under its code that everything from before a moment was removed,
and how much that was, so that any other record that is missing shows.
"""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from audit.chain import sealing
from audit.chain.append_only import deletions_allowed
from audit.chain.seals import removal_entry, seal_after
from audit.chain.verification import Removal, find_removals, find_tampering
from audit.identifiers import identifier_bounds
from audit.models import LogSeal, OperationRecord, SealedAs

RECORDS_AT_ONCE: Final = 10_000
"""Records that one transaction removes: whoever writes to the log waits for its end."""
_ATTEMPTS: Final = 10


class NotRemoved(Exception):
    """Nothing (more) was removed, and why."""


def remove_records(*, before: datetime) -> int:
    """Remove the complete records from before a month; how many.

    `before` is the first moment (UTC) of that month, which is not to come. Each transaction leaves the log whole, so
    that a removal that was broken off is simply begun again. Raises NotRemoved, above all for a log that was tampered
    with: what it still proves must not be removed.
    """
    if before != _month_of(before) or before > timezone.now():
        raise NotRemoved("Only whole months that are over can be removed.")
    sealing.seal_records()
    finding = next(find_tampering(), None)
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
        except IntegrityError:  # the sealer took the seal's number: it makes a seal every two seconds
            continue
    raise NotRemoved("The log is being sealed all the time; try again.")


def _remove_oldest(kept_from: UUID, last: Removal | None) -> Removal | None:
    """Remove the oldest records from before an identifier; None when there are none. In the caller's transaction."""
    newest = LogSeal.objects.order_by("-number").first()
    if find_removals(after=last.seal if last else 0):
        raise NotRemoved("Somebody else removes records at this moment.")
    complete = OperationRecord.objects.filter(sealed_as=SealedAs.FINAL)
    old = complete.filter(id__lt=kept_from).order_by("id")
    beyond = old.values_list("id", flat=True)[RECORDS_AT_ONCE : RECORDS_AT_ONCE + 1].first()
    if beyond is not None:
        kept_from = max(beyond, last.kept_from) if last else beyond  # moments grow from one removal to the next
    count = complete.filter(id__lt=kept_from).count()
    if not count:
        return None
    # The seal first, as the sealer does it: in another order the two could wait for each other.
    seal = seal_after(newest, [removal_entry(kept_from, count)], at=timezone.now())
    seal.save(force_insert=True)
    with deletions_allowed():
        deleted, _ = complete.filter(id__lt=kept_from).delete()
        if deleted != count:
            raise NotRemoved("Somebody else deletes records at this moment.")
    return Removal(seal.number, kept_from, count)
