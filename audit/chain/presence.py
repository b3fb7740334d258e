"""Finds records that no seal names although they are not in the list of those to be sealed.

Records do not say in which seal they are, so they are counted: for each bucket of identifiers, which sort by time, the
distinct records that the seals name, and the rows that are there. Only where these differ are identifiers compared.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Substr

from audit.chain.row_checks import MalformedRow, read_keys, read_rows
from audit.chain.seals import ENTRY_BYTES, FINAL, OPEN, SEALS, TABLE, Entry, find_entries, unpack
from audit.models import LogSeal, OperationRecord, UnsealedRecord

_DIGITS: Final = 7
"""How many hex digits the identifiers of a bucket share: those of 17.5 minutes."""
_REMEMBERED: Final = 4
"""Buckets whose identifiers are in memory, the latest ones. Few records are sealed later, which are looked up."""


NOTHING: Final = UUID(int=0)
"""Below every identifier."""


def bucket_of(record_id: UUID) -> str:
    """The bucket of an identifier. Buckets sort as identifiers do."""
    return record_id.hex[:_DIGITS]


@dataclass(slots=True)
class NamedRecords:
    """The records that the seals walked through so far name and that are there, each counted once.

    Seals before the walk may name records with identifiers up to `floor`, so these are looked up.
    """

    floor: UUID = NOTHING
    counts: Counter[str] = field(default_factory=Counter)
    open: set[UUID] = field(default_factory=set)
    """Those sealed open and not yet complete."""
    completed: set[UUID] = field(default_factory=set)
    """Those that are complete and may have been open before the walk."""
    _latest: dict[str, set[UUID]] = field(default_factory=lambda: defaultdict(set))
    _forgotten: str = ""
    """The last bucket that is no longer in memory."""

    def note(self, seal: int, entry: Entry, *, earlier: Sequence[Entry] | None = None) -> None:
        """Count the record of an entry, unless an earlier one has named it. `earlier` are those, if looked up."""
        record_id, bucket = entry.record_id, bucket_of(entry.record_id)
        is_known = record_id in self.open
        if not is_known:
            is_known = self._is_known(seal, record_id, bucket) if earlier is None else bool(earlier)
        if not is_known:
            self.counts[bucket] += 1
            if entry.phase == OPEN:
                self.open.add(record_id)
        if entry.phase == FINAL:
            if record_id in self.open:
                self.open.discard(record_id)
            elif record_id <= self.floor:
                self.completed.add(record_id)

    def add(self, counts: Mapping[str, int], *, opened: Iterable[UUID], completed: Iterable[UUID], top: UUID) -> None:
        """Add the records of the next seals, as another walk counted them; `top` is the highest of all identifiers."""
        self.counts.update(counts)
        self.open.update(opened)
        self.open.difference_update(completed)
        self.completed.clear()
        self.floor, self._forgotten = top, ""
        self._latest.clear()

    def is_named(self, record_id: UUID) -> bool:
        bucket = bucket_of(record_id)
        if record_id in self.open:
            return True
        if record_id > self.floor and bucket > self._forgotten:
            return record_id in self._latest.get(bucket, ())
        return next(find_entries(record_id), None) is not None

    def _is_known(self, seal: int, record_id: UUID, bucket: str) -> bool:
        """Whether an entry before one in this seal names the record."""
        if record_id <= self.floor or bucket <= self._forgotten:
            return any(number < seal for number, _ in find_entries(record_id))
        known = self._latest[bucket]
        if record_id in known:
            return True
        known.add(record_id)
        if len(self._latest) > _REMEMBERED:
            self._forgotten = min(self._latest)
            del self._latest[self._forgotten]
        return False


@dataclass(frozen=True, slots=True)
class Stock:
    """What was in the tables at one moment: rows of the log by bucket, the list's identifiers, the newest seal."""

    rows: Counter[str]
    listed: frozenset[str]
    newest_seal: int
    since: str = ""
    """The first bucket that was counted."""

    def expected(self, named: NamedRecords) -> Counter[str]:
        """The number of rows by bucket that seals and list account for."""
        unnamed = (
            key[:_DIGITS] for key in self.listed if key[:_DIGITS] >= self.since and not named.is_named(UUID(key))
        )
        return named.counts + Counter(unnamed)


def take_stock(*, since: str = "") -> Stock:
    """Count rows, from a bucket on, and read the list in one statement, which sees all tables as they are at once."""
    later = f" WHERE id >= '{_lowest(since)}'" if since else ""
    statement = (
        f"SELECT 'row', substr(cast(id AS text), 1, {_DIGITS}), count(*) FROM {TABLE}{later} GROUP BY 2"  # noqa: S608
        " UNION ALL SELECT 'list', replace(cast(record_id AS text), '-', ''), 0"
        f" FROM {UnsealedRecord._meta.db_table}"
        f" UNION ALL SELECT 'seal', '', coalesce(max(number), 0) FROM {SEALS}"
    )
    found: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(statement)
        for what, key, number in cursor.fetchall():
            found[what].append((key, number))
    ((_, newest),) = found["seal"]
    listed = frozenset(key for key, _ in found["list"] if _is_canonical(key))
    return Stock(Counter(dict(found["row"])), listed, newest if isinstance(newest, int) else 0, since)


def _lowest(bucket: str) -> str:
    """What no identifier of a bucket is below, as the database writes it. On SQLite that is text, whatever it says."""
    return str(UUID(bucket.ljust(32, "0"))) if connection.vendor == "postgresql" else bucket


def _is_canonical(key: Any) -> bool:
    try:
        return bool(UUID(key).hex == key)
    except (ValueError, TypeError, AttributeError):
        return False


def find_unnamed(named: NamedRecords, stock: Stock, *, removed_before: UUID) -> Iterator[UUID | MalformedRow]:
    """The rows that neither a seal names nor the list has, and those whose identifiers are none.

    What is left of the time from which records were removed is compared one by one: there, counts that were taken
    before the removal are too high.
    """
    expected, emptied = stock.expected(named), bucket_of(removed_before)
    differing = {bucket for bucket in stock.rows if stock.rows[bucket] != expected[bucket] or bucket < emptied}
    if not differing:
        return
    known = {UUID(key) for key in stock.listed if key[:_DIGITS] in differing}
    if compared := {bucket for bucket in differing if bucket >= emptied}:
        known |= _named_in(compared, stock.newest_seal)
    for bucket in sorted(differing):
        for key in read_keys(_rows_in(bucket)):
            # Whatever was written since is in the list, or was, and then in a seal.
            if isinstance(key, MalformedRow) or not (key in known or _is_accounted_for(key)):
                yield key


def _rows_in(bucket: str) -> QuerySet[OperationRecord]:
    """The rows of a bucket. On SQLite, where identifiers may be anything, by their text, which no index serves."""
    if connection.vendor == "postgresql":
        first, last = (UUID(bucket.ljust(32, digit)) for digit in "0f")
        return OperationRecord.objects.filter(id__range=(first, last))
    prefix = Substr(Cast("id", TextField()), 1, _DIGITS)
    return OperationRecord.objects.alias(prefix=prefix).filter(prefix=bucket)


def _named_in(buckets: set[str], newest_seal: int) -> set[UUID]:
    """The records in some buckets that seals name."""
    known: set[UUID] = set()
    for seal in read_rows(LogSeal.objects.filter(number__lte=newest_seal), at_once=20):
        if not isinstance(seal, MalformedRow) and len(seal.entries) % ENTRY_BYTES == 0:
            entries = unpack(bytes(seal.entries))
            known.update(
                each.record_id for each in entries if each.is_of_record and bucket_of(each.record_id) in buckets
            )
    return known


def _is_accounted_for(record_id: UUID) -> bool:
    return (
        UnsealedRecord.objects.filter(record_id=record_id).exists() or next(find_entries(record_id), None) is not None
    )
