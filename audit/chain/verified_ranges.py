"""Ranges of seals that were verified, kept under a MAC, from which a verification goes on.

A verification of what is new begins after the last of them. One of the whole log belongs to a run, and only ranges that
were verified in this run count for it. Any number of processes verify ranges for it, each under a lease, while the
verification itself goes along the chain and adds up what they have learnt; so what it finds, and in which order, does
not depend on them. When it is killed, the next one does the same again and finds nearly all of it done.

Whoever can write to the table can take rows away, which costs time, or put back old ones, which say nothing untrue:
each names its seals by their MACs. Which run counts is not in the database, and its identifier says when it began.
"""

import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import Max

from audit.chain.presence import NOTHING, bucket_of
from audit.chain.removals import Removal, find_closed, find_removals, find_seal, has_seal
from audit.chain.row_checks import UNREADABLE, MalformedRow, read_rows
from audit.chain.seals import ENTRY_BYTES, is_authentic_range, range_mac, unpack
from audit.chain.walk import Finding, Learnt, Progress, Walk
from audit.identifiers import moment_of, new_identifier
from audit.models import LogSeal, VerifiedRange
from core.database import row_lease, shared_clock

_logger = structlog.stdlib.get_logger(__name__)

SEALS_OF_A_RANGE: Final = 100
"""Some seconds of work: up to 25,000 records."""
LEASE: Final = timedelta(seconds=60)
RUNS_LAST: Final = timedelta(hours=24)
"""A run that was interrupted is gone on with for so long; what it verified before would be too old for its answer."""
_KEEP_SECONDS: Final = 10.0
_SEALS_BEFORE: Final = 20
"""Seals before a range whose identifiers show how high those before it are. Records are sealed in their order."""
_MOST_READ: Final = 100
_MOST_AHEAD: Final = 1000
"""Ranges that others verify ahead of the verification itself."""


def new_run() -> UUID:
    """The identifier of a new verification of the whole log."""
    return new_identifier()[0]


def is_recent(run: UUID) -> bool:
    """Whether a run can be gone on with."""
    return abs(shared_clock.now() - moment_of(run)) < RUNS_LAST


@dataclass(frozen=True, slots=True)
class Verified:
    """What is verified up to a seal: since when nothing before is unverified, and what was learnt."""

    at: datetime
    whole_at: datetime
    learnt: Learnt

    @property
    def is_in_log(self) -> bool:
        """Whether the log still has the last seal of the range."""
        return has_seal(self.learnt.last, self.learnt.mac)


def find_ranges() -> list[Verified]:
    """The verified ranges that are the gateway's own, the last first."""
    rows = VerifiedRange.objects.filter(run=None).order_by("-last", "-id")
    try:
        found = list(rows[:_MOST_READ])
    except UNREADABLE:
        return []
    return [
        Verified(row.at, row.whole_at, learnt)
        for row in found
        if row.at and row.whole_at and (learnt := _read(row)) is not None
    ]


def forget_lost_ranges() -> None:
    """Delete the ranges whose last seal the log does not have, after a restore of the database."""
    lost = {verified.learnt.last for verified in find_ranges() if not verified.is_in_log}
    VerifiedRange.objects.filter(run=None, last__in=lost).delete()


def forget_ranges() -> None:
    """Delete all ranges: the next verification reads the whole log."""
    VerifiedRange.objects.all().delete()


@dataclass(slots=True)
class Course:
    """How a verification goes along the chain: after which range it begins, or for which run, and what it keeps."""

    base: Verified | None = None
    run: UUID | None = None
    beat: Callable[[], None] = lambda: None
    walk: Walk | None = None
    _began_at: datetime = field(default_factory=shared_clock.now)
    _kept_at: float = field(default_factory=time.monotonic)
    _is_clean: bool = True
    _can_keep: bool = True

    @classmethod
    def after_last(cls) -> "Course":
        """After the last verified range; along the whole log if there is none."""
        last = next((verified for verified in find_ranges() if verified.is_in_log), None)
        return cls(last if last and last.learnt.last >= find_closed().last else None)

    @property
    def first_seal(self) -> int:
        return self.base.learnt.last + 1 if self.base else 1

    @property
    def since(self) -> str:
        """The first bucket whose records are counted."""
        return self.base.learnt.since if self.base else ""

    def last_removal(self) -> Removal | None:
        """The last removal from the log, once it is verified.

        Of one that was verified earlier only where it ends is known; then it stands for itself at the last seal.
        """
        learnt = self.walk.learnt() if self.walk else None
        if learnt is None:
            learnt = self.base.learnt if self.base else None
        is_known = learnt is not None and learnt.knows_beginning
        known = Removal(learnt.last, learnt.kept_from, 0) if learnt and is_known else None
        return next(reversed(find_removals(after=known.seal if known else 0)), known)

    def begin(self, progress: Progress) -> Walk:
        """The walk that it takes."""
        progress.first_seal = self.first_seal
        if self.base is None:
            walk = Walk.begin(find_removals(), progress)
        else:
            walk = Walk.go_on(self.base.learnt, find_removals(after=self.base.learnt.last), progress)
        walk.beat, self.walk = self.beat, walk
        return walk

    def check(self, walk: Walk) -> Iterator[Finding]:
        """Check the seals there are, range by range."""
        newest, first = newest_seal(), walk.expected
        beginning = 0 if self.base else first
        while (last := _end_of_range(first)) <= newest:
            if self._take_over(walk, first, last):
                first = walk.expected
                continue
            seals = LogSeal.objects.filter(number__lte=last)
            for finding in walk.check(seals.filter(number__gte=first) if first != beginning else seals):
                self._is_clean = False
                yield finding
            self._keep(walk)
            first = last + 1
        seals = LogSeal.objects.all()
        yield from walk.check(seals.filter(number__gte=first) if first != beginning else seals)

    def finish(self, walk: Walk) -> None:
        """Keep that the log is verified as far as the walk went, which found nothing."""
        learnt = walk.learnt()
        if learnt is None or not self._can_keep:
            return
        since = bucket_of(learnt.top)
        counts = {bucket: count for bucket, count in learnt.counts.items() if bucket >= since}
        learnt = replace(learnt, counts=counts, since=since, completed=(), arrived=(), missing={})
        with self._keeping():
            row = self._store(learnt)
            others = VerifiedRange.objects.exclude(id=row.id)
            if self.base is None:
                others.delete()
            else:
                others.filter(run=None, first__gte=row.first, last__lte=row.last).delete()

    def _store(self, learnt: Learnt) -> VerifiedRange:
        now = shared_clock.now()
        whole_at = self.base.whole_at if self.base else moment_of(self.run) if self.run else self._began_at
        row = _signed(VerifiedRange(first=learnt.first, at=now, whole_at=whole_at), learnt)
        row.save(force_insert=True)
        return row

    def _keep(self, walk: Walk) -> None:
        """Keep how far the walk has come, if it is time for it."""
        if not (self._is_clean and self._can_keep) or time.monotonic() - self._kept_at < _KEEP_SECONDS:
            return
        learnt = walk.learnt()
        if learnt is None:
            return
        self._kept_at = time.monotonic()
        with self._keeping():
            if self.base is not None:
                row = self._store(learnt)
                others = VerifiedRange.objects.exclude(id=row.id)
                others.filter(run=None, first=row.first, last__lte=row.last).delete()
            elif self.run is not None:
                _save_range(self.run, learnt)
                VerifiedRange.objects.filter(run=self.run, first__gt=learnt.first, first__lte=learnt.last).delete()

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        """Store something, if possible: an auditor may be able to read only, or verify a copy."""
        try:
            with transaction.atomic():
                yield
        except DatabaseError as error:
            _logger.warning("what is verified cannot be kept, to go on from there", reason=str(error))
            self._can_keep = False

    def _take_over(self, walk: Walk, first: int, last: int) -> bool:
        """Add what was learnt of the next range in this run; False if this process has to walk it, and may now."""
        if self.run is None or walk.expected != first:
            return False
        while self._can_keep:
            row = VerifiedRange.objects.filter(run=self.run, first=first).first()
            if row is None:
                with self._keeping():
                    if _claim(self.run, first, last):
                        return False
                continue
            if row.learnt:
                learnt = _read(row)
                if learnt is not None and walk.follows(learnt):
                    walk.add(learnt)
                    return True
            if row.learnt or row.in_doubt or _take(row):
                return False
            # Somebody else has it: do another one meanwhile. If there is none, waiting would take as long as walking.
            if not verify_range_of(self.run, after=last, beat=self.beat):
                return False
        return False


def verify_range_of(run: UUID, *, after: int = 0, beat: Callable[[], None] = lambda: None) -> bool:
    """Verify the next range of a run, beyond a seal, that nobody has; False if there is none."""
    claimed = _claim_next(run, after=after)
    if claimed is None:
        return False
    first, last = claimed
    rows = VerifiedRange.objects.filter(run=run, first=first)
    before = find_seal(first - 1)
    learnt = None
    if first == 1 or isinstance(before, LogSeal):
        known = before if isinstance(before, LogSeal) else None
        walk = Walk.begin(_removals(run), Progress(), after=known, floor=_highest_before(first))

        def renew() -> None:
            rows.filter(leased_until__isnull=False).update(leased_until=shared_clock.now() + LEASE)
            beat()

        walk.beat = _seldom(renew)
        with closing(walk.check(LogSeal.objects.filter(number__range=(first, last)))) as findings:
            learnt = walk.learnt() if next(findings, None) is None else None
    if learnt is None or learnt.last != last:
        rows.update(in_doubt=True, leased_until=None)
    else:
        _save_range(run, learnt)
    return True


def _seldom(function: Callable[[], None], seconds: float = 5.0) -> Callable[[], None]:
    """Call a function not more often than this."""
    called_at = time.monotonic()

    def call() -> None:
        nonlocal called_at
        if time.monotonic() - called_at >= seconds:
            called_at = time.monotonic()
            function()

    return call


def _claim_next(run: UUID, *, after: int) -> tuple[int, int] | None:
    """Take the first range that nobody has verified or is verifying."""
    newest = newest_seal()
    rows = {row.first: row for row in VerifiedRange.objects.filter(run=run).defer("learnt").order_by("first")}
    first = max(after, find_closed().last) + 1
    if len(rows) > _MOST_AHEAD:
        return None
    lowest = rows[min(rows)] if rows else None
    if lowest and lowest.at is not None:  # as far as the verification itself has come
        first = max(first, lowest.last + 1)
    while (last := _end_of_range(first)) <= newest:
        row = rows.get(first)
        is_free = row is None or (row.at is None and not row.in_doubt)
        if is_free and (_claim(run, first, last) if row is None else _take(row)):
            return first, last
        first = last + 1
    return None


def _claim(run: UUID, first: int, last: int) -> bool:
    row = VerifiedRange(run=run, first=first, last=last, leased_until=shared_clock.now() + LEASE)
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def _take(row: VerifiedRange) -> bool:
    """Take a range whose lease is over."""
    if row.leased_until is not None and row.leased_until > shared_clock.now():
        return False
    rows: Any = VerifiedRange.objects.filter(id=row.id, at=None)
    return row_lease.try_take(rows, "leased_until", lasts=LEASE, counting="attempts", seen=row.leased_until)


def _save_range(run: UUID, learnt: Learnt) -> None:
    """Put what was learnt into a range that was claimed for a run."""
    row = _signed(VerifiedRange(run=run, first=learnt.first, at=shared_clock.now()), learnt)
    VerifiedRange.objects.filter(run=run, first=row.first).update(
        last=row.last, at=row.at, learnt=row.learnt, mac=row.mac, leased_until=None
    )


def _signed(row: VerifiedRange, learnt: Learnt) -> VerifiedRange:
    row.last, row.learnt = learnt.last, zlib.compress(json.dumps(learnt.as_json(), separators=(",", ":")).encode())
    row.mac = range_mac(row)
    return row


def _read(row: VerifiedRange) -> Learnt | None:
    """What was learnt of a range; None unless the gateway stored it."""
    try:
        if not is_authentic_range(row):
            return None
        return Learnt.from_json(json.loads(zlib.decompress(bytes(row.learnt))))
    except UNREADABLE:
        return None


def _end_of_range(first: int) -> int:
    return (first - 1) // SEALS_OF_A_RANGE * SEALS_OF_A_RANGE + SEALS_OF_A_RANGE


def newest_seal() -> int:
    """The number of the newest seal. On SQLite it could be text, which is above all numbers."""
    return LogSeal.objects.filter(number__lt=2**62).aggregate(newest=Max("number"))["newest"] or 0


def _highest_before(first: int) -> UUID:
    """The highest identifier that the seals right before a range name."""
    highest = NOTHING
    for seal in read_rows(LogSeal.objects.filter(number__range=(first - _SEALS_BEFORE, first - 1)), at_once=20):
        if not isinstance(seal, MalformedRow) and len(seal.entries) % ENTRY_BYTES == 0:
            named = (entry.record_id for entry in unpack(bytes(seal.entries)) if entry.is_of_record)
            highest = max(highest, *named, NOTHING)
    return highest


@lru_cache(maxsize=1)
def _removals(_run: UUID) -> list[Removal]:
    """The removals before this process first helped in a run; later ones are loaded as they are needed."""
    return find_removals()
