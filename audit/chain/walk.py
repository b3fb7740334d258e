"""The walk along the chain: it checks seal after seal, each with the records that it names.

What it has learnt on the way, for the checks at the end of the log, is a plain value (`Learnt`): so one walk can go on
where another one ended, and walks along different ranges of seals add up.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db.models import QuerySet

from audit.chain.presence import NOTHING, NamedRecords
from audit.chain.removals import Closed, Removal, find_closed, find_removals
from audit.chain.row_checks import AT_ONCE, MalformedRow, read_by_key, read_rows
from audit.chain.seals import (
    ENTRY_BYTES,
    FINAL,
    OPEN,
    REMOVED,
    Entry,
    find_entries,
    is_as_sealed,
    is_successor,
    matches_entry,
    unpack,
)
from audit.models import LogSeal, OperationRecord
from core.text.messages import message

_Thing = TypeVar("_Thing")

KEY_IS_MISSING: Final = "log key "
"""The prefix of a finding that is not about the log: without a key, what it sealed cannot be checked."""
PUT_BACK: Final = "was put back after it had been removed"
_SEALS_AT_ONCE: Final = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One sign of tampering. `record_id` is None if a seal is concerned, and text if the database has no UUID there."""

    record_id: UUID | str | None
    complaint: str

    @property
    def sentence(self) -> str:
        """The verdict on the log, without a full stop."""
        verdict = "cannot be verified" if self.complaint.startswith(KEY_IS_MISSING) else "was tampered with"
        return f"The operations log {verdict}: {self}"

    def __str__(self) -> str:
        return f"record {self.record_id} {self.complaint}" if self.record_id else self.complaint


@dataclass(slots=True)
class Progress:
    """How much has been checked, and how many records the gateway itself has `removed`.

    `first_seal` is where the verification began: beyond 1, what the seals before it name was verified earlier.
    """

    seals: int = 0
    records: int = 0
    unsealed: int = 0
    removed: int = 0
    first_seal: int = 1


@dataclass(slots=True)
class ExplainedGaps:
    """Attributes missing records to the removals that the gateway made.

    `missing` counts them by the removal's seal. `waiting` are records sealed open whose completion a later seal must
    show, since the gateway never removes an open record. `arrived` are those that are complete in a seal of this walk
    and may have been open in one before it, as identifiers up to `floor` may.
    """

    removals: list[Removal]
    floor: UUID
    after: int
    """The seal before the walk: earlier removals do not matter to it."""
    missing: Counter[int] = field(default_factory=Counter)
    waiting: set[UUID] = field(default_factory=set)
    arrived: set[UUID] = field(default_factory=set)

    def load_new_removals(self) -> None:
        """Load removals made since the verification began; the numbers that they state are not checked."""
        self.removals += find_removals(after=self.removals[-1].seal if self.removals else self.after)

    def find(self, seal: int, record_id: UUID) -> int | None:
        """The index of the removal that took the record, if it was complete in this seal; None if none did.

        Both seals and times ascend from one removal to the next.
        """
        index = max(
            bisect_right(self.removals, seal, key=lambda removal: removal.seal),
            bisect_right(self.removals, record_id, key=lambda removal: removal.kept_from),
        )
        return index if index < len(self.removals) else None

    def note(self, index: int, entry: Entry) -> None:
        """Count a missing record for the removal that may have taken it."""
        if entry.phase == OPEN:
            self.waiting.add(entry.record_id)
            return
        if entry.record_id in self.waiting:
            self.waiting.discard(entry.record_id)
        elif entry.record_id <= self.floor:
            self.arrived.add(entry.record_id)
        self.missing[self.removals[index].seal] += 1

    def contradictions(self, *, up_to: int) -> Iterator[Finding]:
        """Findings for open records that are gone, and for removals up to a seal whose stated number differs."""
        for record_id in sorted(self.waiting):
            yield Finding(record_id, "was deleted")
        for removal in self.removals:
            missing = self.missing[removal.seal]
            if removal.seal <= up_to and missing != removal.removed:
                yield Finding(
                    None, f"seal {removal.seal} tells of {removal.removed} records removed, but {missing} are missing"
                )


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a walk along a range of seals has learnt, if it found nothing.

    - `previous` and `mac` are the MACs of the seal before the range, "" at the beginning, and of its last one.
    - `top` is the highest identifier in the range. Up to `floor`, the walk took identifiers for such as an earlier seal
      may name, and looked them up: what it learnt holds if no seal before the range names a higher one.
    - `counts` are of the distinct records that no seal before the range names, by bucket (`audit.chain.presence`).
    - `completed` and `arrived` name records that were open in a seal before the range and are complete in one of it.
    - `stated_until` is the last removal that was known when the walk began.
    - `since` is the first bucket of `counts`. From it on these are of all seals up to the last, and so are `open` and
      `waiting`, where the range goes on from others.
    - `keys` are the keys that made seals up to the last, each with its first and last seal, and `kept_from` is where
      the records begin that no removal took: of all seals up to the last too, if one of `keys` made the first seal.
    """

    first: int
    last: int
    previous: str
    mac: str
    seals: int = 0
    records: int = 0
    floor: UUID = NOTHING
    top: UUID = NOTHING
    counts: Mapping[str, int] = field(default_factory=dict)
    open: Sequence[UUID] = ()
    completed: Sequence[UUID] = ()
    waiting: Sequence[UUID] = ()
    arrived: Sequence[UUID] = ()
    missing: Mapping[int, int] = field(default_factory=dict)
    stated_until: int = 0
    since: str = ""
    keys: Mapping[str, Sequence[int]] = field(default_factory=dict)
    kept_from: UUID = NOTHING

    @property
    def knows_beginning(self) -> bool:
        """Whether `keys` and `kept_from` are known from the first seal on."""
        return any(first == 1 for first, _ in self.keys.values())

    def as_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Learnt":
        """The inverse of `as_json`."""
        identifiers = {name: tuple(map(UUID, stored[name])) for name in ("open", "completed", "waiting", "arrived")}
        missing = {int(seal): count for seal, count in stored["missing"].items()}
        ends = {name: UUID(stored[name]) for name in ("floor", "top", "kept_from") if name in stored}
        return cls(**{**stored, **identifiers, **ends, "missing": missing})


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return [item.hex for item in value] if isinstance(value, list | tuple) else value


@dataclass(slots=True)
class Walk:
    """Checks seal after seal, each with the records that it names, from the `first` on."""

    gaps: ExplainedGaps
    progress: Progress
    named: NamedRecords
    first: int = 1
    previous: LogSeal | MalformedRow | None = None
    closed: Closed = field(default_factory=find_closed)
    beat: Callable[[], None] = lambda: None
    """Called now and then."""
    expected: int = 1
    top: UUID = NOTHING
    stated_until: int = 0
    """The last removal whose stated number can be checked: 0 where the walk does not pass what was removed."""
    keys: dict[str, Sequence[int]] = field(default_factory=dict)
    kept_from: UUID = NOTHING
    _before: str = ""
    _since: str = ""

    @classmethod
    def begin(
        cls,
        removals: list[Removal],
        progress: Progress,
        *,
        after: LogSeal | None = None,
        floor: UUID = NOTHING,
    ) -> "Walk":
        """A walk from the beginning, or `after` a seal, all of whose predecessors name identifiers up to `floor`.

        The beginning is the first seal that was not closed.
        """
        closed = find_closed()
        start = after or closed.last_seal()
        first = start.number + 1 if start else 1
        gaps = ExplainedGaps(removals, floor, first - 1)
        walk = cls(gaps, progress, NamedRecords(floor=floor), first, start, closed, expected=first)
        if removals and removals[-1].seal >= closed.seal:  # else seals were closed since these were read
            walk.stated_until = removals[-1].seal
        walk._before = start.mac if start else ""
        if start and not after:
            walk.keys, walk.kept_from = {"": (1, closed.last)}, closed.kept_from
        return walk

    @classmethod
    def go_on(cls, learnt: Learnt, removals: list[Removal], progress: Progress) -> "Walk":
        """A walk that knows what was learnt of all seals before it."""
        walk = cls.begin(removals, progress, after=LogSeal(number=learnt.last, mac=learnt.mac), floor=learnt.top)
        walk.top, walk.stated_until, walk._since = learnt.top, 0, learnt.since
        walk.keys, walk.kept_from = dict(learnt.keys), learnt.kept_from
        walk.named.counts.update(learnt.counts)
        walk.named.open.update(learnt.open)
        walk.gaps.waiting.update(learnt.waiting)
        return walk

    def learnt(self) -> Learnt | None:
        """What it has learnt so far; None if it cannot be gone on from."""
        if self.expected == self.first or not isinstance(self.previous, LogSeal):
            return None
        return Learnt(
            first=self.first,
            last=self.previous.number,
            previous=self._before,
            mac=self.previous.mac,
            seals=self.progress.seals,
            records=self.progress.records,
            floor=self.named.floor,
            top=self.top,
            counts=dict(self.named.counts),
            open=sorted(self.named.open),
            completed=sorted(self.named.completed),
            waiting=sorted(self.gaps.waiting),
            arrived=sorted(self.gaps.arrived),
            missing=dict(self.gaps.missing),
            stated_until=self.stated_until,
            since=self._since,
            keys=dict(self.keys),
            kept_from=self.kept_from,
        )

    def follows(self, learnt: Learnt) -> bool:
        """Whether what another walk learnt of the next seals can be added to this one."""
        mac = self.previous.mac if isinstance(self.previous, LogSeal) else ""
        is_known = self.previous is None or isinstance(self.previous, LogSeal)
        return is_known and (learnt.first, learnt.previous) == (self.expected, mac) and learnt.floor >= self.top

    def add(self, learnt: Learnt) -> None:
        """Add what another walk learnt of the next seals, and go on behind them."""
        self.progress.seals += learnt.seals
        self.progress.records += learnt.records
        self.top = max(self.top, learnt.top)
        self.named.add(learnt.counts, opened=learnt.open, completed=learnt.completed, top=self.top)
        self.gaps.waiting |= set(learnt.waiting)
        self.gaps.waiting -= set(learnt.arrived)
        self.gaps.missing.update(learnt.missing)
        self.gaps.floor = self.top
        if not learnt.keys:  # of a release that did not note them: nothing is known from the beginning any more
            self.keys.clear()
        for key, (first, last) in learnt.keys.items():
            self._note_key(key, first, last)
        self.kept_from = max(self.kept_from, learnt.kept_from)
        self.stated_until = min(self.stated_until, learnt.stated_until)
        self.previous, self.expected = LogSeal(number=learnt.last, mac=learnt.mac), learnt.last + 1

    def check(self, seals: QuerySet[LogSeal]) -> Generator[Finding]:
        """Go on with these seals."""
        for some in _with_enough_entries(read_rows(seals, at_once=_SEALS_AT_ONCE)):
            self.beat()
            removals = len(self.gaps.removals)
            records = _read_named(entry for _, entries in some for entry in entries if entry.is_of_record)
            for seal, entries in some:
                if isinstance(seal, MalformedRow):
                    yield Finding(None, f"seal {seal.key} is malformed: {seal.complaint}")
                    self.expected = int(seal.key) + 1 if seal.key.isdecimal() else self.expected
                    self.previous = seal
                    continue
                if seal.number > self.expected:
                    self._skip_closed()
                if 0 < seal.number <= self.closed.last:
                    if seal.number < self.first:  # else it was closed after it had been read
                        yield Finding(None, f"seal {seal.number} {PUT_BACK}")
                    continue
                yield from self._check_seal(seal)
                yield from self._check_entries(seal.number, entries, records, removals)
                self._note_key(seal.key, seal.number, seal.number)
                self.progress.seals += 1
                self.progress.records += sum(entry.phase == FINAL for entry in entries)
                self.previous, self.expected = seal, seal.number + 1

    def _note_key(self, key: str, first: int, last: int) -> None:
        self.keys[key] = (self.keys.get(key, (first,))[0], last)

    def _check_seal(self, seal: LogSeal) -> Iterator[Finding]:
        if seal.number != self.expected:
            yield Finding(None, message("seal {number} is missing", number=self.expected))
        elif not isinstance(self.previous, MalformedRow) and not is_successor(seal, self.previous):
            yield Finding(None, message("seal {number} was changed", number=seal.number))

    def _skip_closed(self) -> None:
        """Go on behind the seals that were closed since the walk began; how many records these name is not known."""
        closed = find_closed()
        if closed.last >= self.expected:
            self.closed, self.previous, self.expected, self.stated_until = (
                closed,
                closed.last_seal(),
                closed.last + 1,
                0,
            )
            self.gaps.waiting.clear()

    def _check_entries(
        self,
        number: int,
        entries: Sequence[Entry],
        records: Mapping[UUID, OperationRecord | MalformedRow],
        removals: int,
    ) -> Iterator[Finding]:
        """Check the records that a seal names. `removals` were known when they were read."""
        for entry in entries:
            if not entry.is_of_record:
                if entry.phase == REMOVED:
                    self.kept_from = max(self.kept_from, entry.record_id)
                continue
            self.top = max(self.top, entry.record_id)
            record = records.get(entry.record_id)
            earlier = self._earlier_entries(number, entry)
            if record is not None:
                self.named.note(number, entry, earlier=earlier)
            if isinstance(record, MalformedRow):
                yield Finding(entry.record_id, f"is malformed: {record.complaint}")
            elif self._is_late(number, entry) and not earlier:
                yield Finding(entry.record_id, PUT_BACK)
            elif (complaint := self._check_entry(number, entry, record, removals, earlier or ())) is not None:
                yield Finding(entry.record_id, complaint)

    def _is_late(self, number: int, entry: Entry) -> bool:
        """Whether a record was sealed after all complete ones of its time were removed. An earlier seal has it open."""
        return number > self.closed.seal and entry.record_id < self.closed.kept_from

    def _earlier_entries(self, number: int, entry: Entry) -> list[Entry] | None:
        """The entries of a record in earlier seals, where this walk may not have passed them; None where it has."""
        if entry.record_id > self.named.floor and not self._is_late(number, entry):
            return None
        return [each for seal, each in find_entries(entry.record_id) if seal < number]

    def _check_entry(
        self, number: int, entry: Entry, record: OperationRecord | None, removals: int, earlier: Sequence[Entry]
    ) -> str | None:
        """The complaint about a record that a seal names, or None."""
        removal = self.gaps.find(number, entry.record_id)
        if record is None:
            if removal is None:
                self.gaps.load_new_removals()
                removal = self.gaps.find(number, entry.record_id)
            if removal is None:
                return "was deleted"
            self.gaps.note(removal, entry)
            return None
        if removal is not None and removal < removals and entry.phase == FINAL:
            return PUT_BACK
        # Whoever changes a record and has it sealed once more contradicts the seal that it had before.
        is_unchanged = is_as_sealed(record, entry) and all(matches_entry(record, each) for each in earlier)
        return None if is_unchanged else "was changed"


def _with_enough_entries(
    rows: Iterable[LogSeal | MalformedRow],
) -> Iterator[list[tuple[LogSeal | MalformedRow, list[Entry]]]]:
    """Seals with their entries, as many together as are worth a query for their records."""
    some: list[tuple[LogSeal | MalformedRow, list[Entry]]] = []
    count = 0
    for row in rows:
        seal = _unless_cut_short(row)
        entries = [] if isinstance(seal, MalformedRow) else list(unpack(bytes(seal.entries)))
        some.append((seal, entries))
        count += len(entries)
        if count >= AT_ONCE or len(some) >= AT_ONCE:
            yield some
            some, count = [], 0
    if some:
        yield some


def _read_named(entries: Iterable[Entry]) -> dict[UUID, OperationRecord | MalformedRow]:
    """The records that entries name."""
    found: dict[UUID, OperationRecord | MalformedRow] = {}
    for some in in_chunks(entry.record_id for entry in entries):
        found.update(read_by_key(OperationRecord, some))
    return found


def _unless_cut_short(seal: LogSeal | MalformedRow) -> LogSeal | MalformedRow:
    if isinstance(seal, LogSeal) and len(seal.entries) % ENTRY_BYTES:
        return MalformedRow(str(seal.number), "entries end in the midst of one")
    return seal


def in_chunks(things: Iterable[_Thing]) -> Iterator[list[_Thing]]:
    """The things in lists that are read at once."""
    remaining = iter(things)
    while some := list(islice(remaining, AT_ONCE)):
        yield some
