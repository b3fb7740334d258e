"""Counts complete records by day along the chain, so that statistics need not read the log.

A row says up to which seal the records are counted. Whoever seals counts in the same transaction if nothing before is
left to count. What others sealed, as the release before does, is counted afterwards, seal by seal. In both cases the
row moves on from the very seal that was seen, so each seal is counted once, whoever counts and whoever is killed.

A seal of removed records takes the counts of the days before them away.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from audit.chain.row_checks import UNREADABLE, MalformedRow, read_by_key, read_rows
from audit.chain.seals import ENTRY_BYTES, FINAL, REMOVED, Entry, unpack
from audit.identifiers import moment_of
from audit.log_queries import names_of_reads
from audit.models import CountedSeals, DailyCount, LogSeal, OperationRecord, Outcome
from core.errors import Forbidden

LONGEST_WINDOW: Final = timedelta(days=90)
"""As far back as statistics go. What was sealed before is not counted in a log that has no counts yet."""
SEALS_AT_ONCE: Final = 20
"""Seals that are counted in one transaction."""
_SECONDS: Final = 1.0
"""How long sealing may be held up by what others sealed."""
_ROW: Final = 1


class Alike(NamedTuple):
    """What records have in common that are counted together; the key of a DailyCount."""

    day: date
    credential_id: str
    key_name: str
    outcome: str
    is_read: bool
    is_forbidden: bool


FACTS: Final = ("at", "key_name", "credential_id", "outcome", "code", "operation")
"""The columns of a record that decide with which others it is counted."""


def find_alike(records: Iterable[tuple[Any, ...]]) -> Counter[Alike]:
    """Count records, given by their FACTS."""
    reads = frozenset(names_of_reads())
    return Counter(
        Alike(
            at.astimezone(UTC).date(),
            credential_id if key_name else "",
            key_name or "",
            outcome,
            operation in reads,
            outcome == Outcome.FAILED and code == Forbidden.code,
        )
        for at, key_name, credential_id, outcome, code, operation in records
    )


def count_sealed(seal: LogSeal, complete: Iterable[tuple[Any, ...]]) -> None:
    """Count the complete records of a new seal, given by their FACTS, in the transaction that adds it.

    If not all before it are counted, it is left to `catch_up`.
    """
    if _advance(seal.number - 1, seal.number):
        _add(find_alike(complete))


def catch_up(*, seconds: float = _SECONDS) -> bool:
    """Count what others have sealed, for some seconds at most; return whether anything is left."""
    ends_at = time.monotonic() + seconds
    while (uncounted := find_uncounted()) is not None:
        if time.monotonic() > ends_at:
            return True
        counted, newest = uncounted
        sealed = read_sealed(counted, newest, limit=SEALS_AT_ONCE)
        with transaction.atomic():
            if not _advance(counted, sealed.last):
                return True  # somebody else counts
            if sealed.kept_from is not None:
                DailyCount.objects.filter(day__lt=sealed.kept_from).delete()
            _add(sealed.counts)
    return False


def recount() -> None:
    """Forget all counts and count anew. Whoever asks meanwhile is told what the rows say."""
    with transaction.atomic():
        CountedSeals.objects.all().delete()
        DailyCount.objects.all().delete()
    while catch_up():
        pass


def find_uncounted() -> tuple[int, int] | None:
    """The last seal that is counted and the newest one; None if they are the same."""
    counted = CountedSeals.objects.filter(pk=_ROW).values_list("number", flat=True).first()
    newest = LogSeal.objects.aggregate(newest=Max("number"))["newest"] or 0
    if counted is None and newest:
        first = _last_sealed_before(timezone.now() - LONGEST_WINDOW - timedelta(days=1), newest)
        CountedSeals.objects.bulk_create([CountedSeals(id=_ROW, number=first)], ignore_conflicts=True)
        counted = first
    return None if counted is None or counted >= newest else (counted, newest)


def _last_sealed_before(moment: datetime, newest: int) -> int:
    """The number of the last seal from before a moment, for which nobody keeps an index; 0 if there is none."""
    low, high = 0, newest
    while low < high:
        middle = (low + high + 1) // 2
        seal = LogSeal.objects.filter(number__lte=middle).order_by("-number").values_list("number", "sealed_at").first()
        if seal is None or seal[1] < moment:
            low = middle
        else:
            high = min(seal[0], middle) - 1
    return low


@dataclass(slots=True)
class Sealed:
    """What the seals up to `last` have complete. `kept_from` is the first day that a removal has left as it was."""

    last: int
    counts: Counter[Alike] = field(default_factory=Counter)
    kept_from: date | None = None

    def forget_before(self, day: date) -> None:
        self.kept_from = max(day, self.kept_from or day)
        self.counts = Counter({alike: count for alike, count in self.counts.items() if alike.day >= day})


def read_sealed(after: int, newest: int, *, limit: int) -> Sealed:
    """Count the complete records of the seals after one, of so many seals at most.

    Verification reports malformed seals and rows, and those that are gone; they are not counted.
    """
    found = Sealed(newest)
    numbers = LogSeal.objects.filter(number__gt=after, number__lte=newest).order_by("number")
    some = list(numbers.values_list("number", flat=True)[:limit])
    if len(some) == limit:
        found.last = some[-1]
    complete: list[UUID] = []
    for entry in _entries(after, found.last):
        if entry.phase == FINAL:
            complete.append(entry.record_id)
        elif entry.phase == REMOVED:
            # The day in which a long removal is interrupted counts in full until it goes on.
            found.counts += find_alike(_read_facts(complete))
            complete = []
            found.forget_before(moment_of(entry.record_id).date())
    found.counts += find_alike(_read_facts(complete))
    return found


def _entries(after: int, last: int) -> Iterator[Entry]:
    for seal in read_rows(LogSeal.objects.filter(number__gt=after, number__lte=last), at_once=SEALS_AT_ONCE):
        if not isinstance(seal, MalformedRow) and len(seal.entries) % ENTRY_BYTES == 0:
            yield from unpack(bytes(seal.entries))


def _read_facts(record_ids: list[UUID]) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(record_ids), 500):
        some = record_ids[start : start + 500]
        try:
            rows = list(OperationRecord.objects.filter(id__in=some).order_by().values_list(*FACTS))
            find_alike(rows)
        except UNREADABLE:
            readable = read_by_key(OperationRecord, some).values()
            rows = [facts_of(record) for record in readable if not isinstance(record, MalformedRow)]
        yield from rows


def facts_of(record: OperationRecord) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in FACTS)


def _advance(before: int, after: int) -> bool:
    """Move on from the very seal that was seen; others wait until the transaction ends."""
    return CountedSeals.objects.filter(pk=_ROW, number=before).update(number=after) == 1


def _add(counts: Counter[Alike]) -> None:
    rows = [(connection.ops.adapt_datefield_value(alike.day), *alike[1:], count) for alike, count in counts.items()]
    columns = (*Alike._fields, "records")
    table = DailyCount._meta.db_table
    with connection.cursor() as cursor:
        for start in range(0, len(rows), 100):
            some = rows[start : start + 100]
            values = ", ".join([f"({', '.join(['%s'] * len(columns))})"] * len(some))
            cursor.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"  # noqa: S608 - constants put together
                f" ON CONFLICT ({', '.join(Alike._fields)})"
                f" DO UPDATE SET records = {table}.records + excluded.records",
                [value for row in some for value in row],
            )
