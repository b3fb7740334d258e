"""Looks for tampering in the operations log: checks every seal and every record, in the order of the chain.

A table beside the log keeps the result of the last verification. A worker verifies when somebody asks for it, one at a
time.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar
from uuid import UUID

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.db.models import Max, Min, QuerySet
from django.db.models.functions import Length
from redis.exceptions import RedisError

from audit.chain.checkpoint import Head, describe_loss, find_checkpoint, is_in_log
from audit.chain.presence import NamedRecords, Stock, find_unnamed, take_stock
from audit.chain.row_checks import AT_ONCE, UNREADABLE, MalformedRow, read_by_key, read_rows
from audit.chain.seals import (
    ENTRY_BYTES,
    FINAL,
    OPEN,
    REMOVED,
    Entry,
    count_removed,
    find_entries,
    is_authentic,
    is_authentic_verification,
    is_successor,
    matches_entry,
    name_of_key,
    unpack,
    verification_mac,
)
from audit.models import OPEN_OUTCOMES, LogSeal, LogVerification, OperationRecord, SealedAs, UnsealedRecord
from core.database.time_limit import QueryTookTooLong, time_limit
from core.errors import ServiceUnavailable
from core.redis.broker import BrokerUnavailable, send_task
from core.text.messages import message

_Thing = TypeVar("_Thing")

KEY_IS_MISSING = "log key "
"""The prefix of a finding that is not about the log: without a key, what it sealed cannot be checked."""


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
    """How much has been checked, and how many records the gateway itself has `removed`."""

    seals: int = 0
    records: int = 0
    unsealed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Removal:
    """A seal that states that the gateway removed the complete records before `kept_from` from earlier seals."""

    seal: int
    kept_from: UUID
    removed: int


def keep_verification(progress: Progress, finding: Finding | None) -> None:
    """Store the result of a verification that ended now, in place of the previous one."""
    verification = LogVerification(
        seals=progress.seals, records=progress.records, finding=None if finding is None else str(finding)
    )
    verification.mac = verification_mac(verification)
    with transaction.atomic():
        LogVerification.objects.all().delete()
        verification.save()


def last_verification() -> LogVerification | None:
    """The result of the last verification; None if there is none that the gateway itself stored."""
    newest = LogVerification.objects.order_by("-id").first()
    return newest if newest is not None and is_authentic_verification(newest) else None


def find_missing_keys() -> Iterator[Finding]:
    """A finding for each key that made seals and is no longer configured, numbered in the order of first use."""
    known = {name_of_key(key) for key in settings.LOG_KEYS}
    for number, (key, (first, last)) in enumerate(find_seals_by_key().items(), 1):
        if key not in known:
            yield Finding(
                None,
                message(
                    "log key {number} ({key}) is missing, which made seals {first} to {last}: put it behind the others "
                    "in GATEWAY_LOG_KEYS",
                    number=number,
                    key=key,
                    first=first,
                    last=last,
                ),
            )


def find_seals_by_key() -> dict[str, tuple[int, int]]:
    """The first and the last seal that each key made, by the key's identifier, in the order of first use."""
    used = LogSeal.objects.exclude(key="").order_by().values("key").annotate(first=Min("number"), last=Max("number"))
    by_first = sorted(used, key=lambda item: item["first"])
    return {item["key"]: (item["first"], item["last"]) for item in by_first}


def find_removals(*, after: int = 0) -> list[Removal]:
    """The removals after a seal, in order. Ignores seals that the gateway did not make: they justify no removal."""
    removals = []
    with_one_entry = LogSeal.objects.annotate(octets=Length("entries")).filter(octets=ENTRY_BYTES, number__gt=after)
    for seal in read_rows(with_one_entry):
        if isinstance(seal, MalformedRow):
            continue
        (entry,) = unpack(bytes(seal.entries))
        if entry.phase != REMOVED:
            continue
        previous = read_by_key(LogSeal, [seal.number - 1]).get(seal.number - 1)
        if not isinstance(previous, MalformedRow) and is_successor(seal, previous):
            removals.append(Removal(seal.number, entry.record_id, count_removed(entry)))
    return removals


@dataclass(slots=True)
class _ExplainedGaps:
    """Attributes missing records to the removals that the gateway made.

    `missing` counts them per removal. `waiting` are records sealed open whose completion a later seal must show, since
    the gateway never removes an open record.
    """

    removals: list[Removal]
    missing: list[int] = field(init=False)
    waiting: set[UUID] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.missing = [0] * len(self.removals)

    def load_new_removals(self) -> None:
        """Load removals made since the verification began; the numbers that they state are not checked."""
        self.removals += find_removals(after=self.removals[-1].seal if self.removals else 0)

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
        else:
            self.waiting.discard(entry.record_id)
            if index < len(self.missing):
                self.missing[index] += 1

    def contradictions(self) -> Iterator[Finding]:
        """Findings for open records that are gone, and for removals whose stated number differs."""
        for record_id in sorted(self.waiting):
            yield Finding(record_id, "was deleted")
        for removal, missing in zip(self.removals, self.missing, strict=False):
            if missing != removal.removed:
                yield Finding(
                    None, f"seal {removal.seal} tells of {removal.removed} records removed, but {missing} are missing"
                )


_SECONDS_FOR_KEYS: Final = 1.0


def reason_for_doubt(record: OperationRecord) -> str | None:
    """Why one record cannot be trusted, in a sentence; None if it is as the gateway wrote it.

    Only verifying the whole log tells whether other records are missing.
    """
    doubt = _contradiction(record)
    if doubt is None:
        return None
    try:  # only a doubtful record is worth it: all seals are read for their keys
        with time_limit(_SECONDS_FOR_KEYS):
            missing = next(find_missing_keys(), None)
    except QueryTookTooLong:
        missing = None  # the last verification of the log, shown beside, says which key is missing
    return doubt if missing is None else message("It cannot be verified: {why}.", why=missing.complaint)


def _contradiction(record: OperationRecord) -> str | None:
    """How a record contradicts the code or the seal that the keys at hand made of it."""
    listed = UnsealedRecord.objects.filter(record_id=record.id).first()  # before the seals: it goes from here to there
    if (listed and listed.sealed_as == SealedAs.REFUSED) or not is_authentic(record):
        return message("It was changed after it was written, or was never written by the gateway.")
    try:
        entries = list(find_entries(record.id))
        if record.outcome in OPEN_OUTCOMES:  # it may have been completed and sealed since it was read
            record = OperationRecord.objects.filter(id=record.id).first() or record
    except UNREADABLE:
        return message("A seal that may hold it is malformed.")
    differing = next((number for number, entry in entries if not matches_entry(record, entry)), None)
    if differing is not None:
        return message(
            "It is not as seal {number} holds it: it was changed after it had been sealed.", number=differing
        )
    is_sealed = any(entry.phase == FINAL or record.outcome in OPEN_OUTCOMES for _, entry in entries)
    return None if listed or is_sealed else message("No seal holds it as it is.")


def find_tampering(head: Head | None = None, progress: Progress | None = None) -> Generator[Finding]:
    """Yield the signs of tampering in the order of the chain.

    An exported `head` and the gateway's own checkpoint reveal that seals were cut off together with their records.
    """
    progress = progress or Progress()
    if missing := list(find_missing_keys()):  # without a key everything that it sealed would look forged
        yield from missing
        return
    checkpoint = find_checkpoint()  # first: one that advances meanwhile would name a seal newer than those read below
    walk = _Walk(_ExplainedGaps(find_removals()), progress, head)
    yield from walk.check(LogSeal.objects.all())
    stock = take_stock()
    yield from walk.check(LogSeal.objects.filter(number__range=(walk.expected, stock.newest_seal)))
    gaps = walk.gaps
    yield from gaps.contradictions()
    progress.removed = sum(gaps.missing)
    progress.records -= progress.removed
    if head and not walk.head_was_seen:
        yield Finding(
            None, f"the log was cut or made anew: seal {head['seal']} of the head is not its seal {head['seal']}"
        )
    if checkpoint and not is_in_log(checkpoint):
        yield Finding(None, describe_loss(checkpoint))
    yield from _check_unsealed(walk.named, stock, progress)
    yield from _check_open(walk.named, stock)


@dataclass(slots=True)
class _Walk:
    """Checks seal after seal, each with the records that it names."""

    gaps: _ExplainedGaps
    progress: Progress
    head: Head | None
    named: NamedRecords = field(default_factory=NamedRecords)
    previous: LogSeal | MalformedRow | None = None
    expected: int = 1
    head_was_seen: bool = False

    def check(self, seals: QuerySet[LogSeal]) -> Iterator[Finding]:
        """Go on with these seals."""
        for row in read_rows(seals, at_once=20):
            seal = _unless_cut_short(row)
            if isinstance(seal, MalformedRow):
                yield Finding(None, f"seal {seal.key} is malformed: {seal.complaint}")
                self.expected = int(seal.key) + 1 if seal.key.isdecimal() else self.expected
                self.previous = seal
                continue
            if seal.number != self.expected:
                yield Finding(None, message("seal {number} is missing", number=self.expected))
            elif not isinstance(self.previous, MalformedRow) and not is_successor(seal, self.previous):
                yield Finding(None, message("seal {number} was changed", number=seal.number))
            if self.head and seal.number == self.head["seal"]:
                self.head_was_seen = seal.mac == self.head["mac"]
            entries = list(unpack(bytes(seal.entries)))
            yield from self._check_entries(seal, [entry for entry in entries if entry.phase != REMOVED])
            self.progress.seals += 1
            self.progress.records += sum(entry.phase == FINAL for entry in entries)
            self.previous, self.expected = seal, seal.number + 1

    def _check_entries(self, seal: LogSeal, entries: list[Entry]) -> Iterator[Finding]:
        """Check the records that a seal names."""
        for some in _chunks(entries):
            removals = len(self.gaps.removals)
            records = read_by_key(OperationRecord, [entry.record_id for entry in some])
            for entry in some:
                record = records.get(entry.record_id)
                if record is not None:
                    self.named.note(seal.number, entry)
                if isinstance(record, MalformedRow):
                    yield Finding(entry.record_id, f"is malformed: {record.complaint}")
                elif (complaint := self._check_entry(seal, entry, record, removals)) is not None:
                    yield Finding(entry.record_id, complaint)

    def _check_entry(self, seal: LogSeal, entry: Entry, record: OperationRecord | None, removals: int) -> str | None:
        """The complaint about a record that a seal names, or None. `removals` were known when it was read."""
        removal = self.gaps.find(seal.number, entry.record_id)
        if record is None:
            if removal is None:
                self.gaps.load_new_removals()
                removal = self.gaps.find(seal.number, entry.record_id)
            if removal is None:
                return "was deleted"
            self.gaps.note(removal, entry)
            return None
        if removal is not None and removal < removals and entry.phase == FINAL:
            return "was put back after it had been removed"
        return None if is_authentic(record) and matches_entry(record, entry) else "was changed"


def _unless_cut_short(seal: LogSeal | MalformedRow) -> LogSeal | MalformedRow:
    if isinstance(seal, LogSeal) and len(seal.entries) % ENTRY_BYTES:
        return MalformedRow(str(seal.number), "entries end in the midst of one")
    return seal


def _check_unsealed(named: NamedRecords, stock: Stock, progress: Progress) -> Iterator[Finding]:
    """Check the records that are listed to be sealed, those of the last seconds, and find those that are nowhere."""
    for some in _chunks(map(UUID, sorted(stock.listed))):
        records = read_by_key(OperationRecord, some)
        for record_id in some:
            record = records.get(record_id)
            if record is None:
                yield Finding(record_id, "was deleted")
            elif isinstance(record, MalformedRow):
                yield _malformed(record)
            elif not is_authentic(record):
                yield Finding(record_id, "was inserted or changed")
            elif record_id not in named.open:
                progress.unsealed += 1
    for key in find_unnamed(named, stock):
        yield _malformed(key) if isinstance(key, MalformedRow) else Finding(key, "is in no seal")


def _check_open(named: NamedRecords, stock: Stock) -> Iterator[Finding]:
    """Check that records sealed open are open still, or listed to be sealed again."""
    for some in _chunks(sorted(named.open)):
        for record_id, record in read_by_key(OperationRecord, some).items():
            if isinstance(record, MalformedRow) or record.outcome in OPEN_OUTCOMES or record_id.hex in stock.listed:
                continue
            is_listed = UnsealedRecord.objects.filter(record_id=record_id).exists()  # completed meanwhile
            if not is_listed and not _is_sealed_complete(record_id):
                yield Finding(record_id, "is in no seal as it is")


def _is_sealed_complete(record_id: UUID) -> bool:
    return any(entry.phase == FINAL for _, entry in find_entries(record_id))


def _chunks(things: Iterable[_Thing]) -> Iterator[list[_Thing]]:
    remaining = iter(things)
    while some := list(islice(remaining, AT_ONCE)):
        yield some


def _malformed(record: MalformedRow) -> Finding:
    return Finding(record.key, f"is malformed: {record.complaint}")


_logger = structlog.stdlib.get_logger(__name__)

_TASK: Final = "gateway.tasks.verify_log"
_UNDER_WAY: Final = "operations-log.verifying"
_AT_MOST: Final = 3600
"""Seconds after which a new verification may start although the last worker, perhaps killed, has not finished."""


def request_verification() -> bool:
    """Ask a worker to verify the log; False if one is doing so already. Raises ServiceUnavailable without a broker."""
    try:
        if not cache.add(_UNDER_WAY, True, _AT_MOST):
            return False
        try:
            send_task(_TASK, ignore_result=True)
        except BrokerUnavailable:
            cache.delete(_UNDER_WAY)
            raise
    except (BrokerUnavailable, RedisError) as error:
        raise ServiceUnavailable(message("No worker can be asked: the broker is away.")) from error
    return True


def is_verifying() -> bool:
    """Whether a worker was asked to verify the log and has not finished."""
    try:
        return bool(cache.get(_UNDER_WAY))
    except RedisError:
        return False


def verify() -> None:
    """Verify the log up to the first sign of tampering, and store the result."""
    progress = Progress()
    try:
        finding = next(find_tampering(None, progress), None)
        keep_verification(progress, finding)
        if finding is not None:
            _logger.error(finding.sentence)
    finally:
        try:
            cache.delete(_UNDER_WAY)
        except RedisError:
            _logger.warning("whether the log is being verified stays noted for an hour: Redis is away")
