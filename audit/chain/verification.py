"""Looking for tampering in the operations log: every seal, every record, in the order of the chain.

How the last verification ended is kept in a table beside the log.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, Max, Min, OuterRef
from django.db.models.functions import Length

from audit.chain.checkpoint import find_mark, is_held, what_is_missing
from audit.chain.head_export import Head
from audit.chain.row_checks import AT_ONCE, Malformed, read_by_key, read_keys, read_rows
from audit.chain.seals import (
    ENTRY_BYTES,
    FINAL,
    OPEN,
    REMOVED,
    Entry,
    agrees,
    count_removed,
    follows,
    is_authentic,
    is_authentic_verification,
    name_of_key,
    unpack,
    verification_mac,
)
from audit.models import LogSeal, LogVerification, OperationRecord, SealedAs
from core.text.messages import message

KEY_IS_MISSING = "log key "
"""How a finding begins that is none about the log: a key is gone, and what it sealed cannot be checked."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `record_id` is None where a seal itself is, and text where the database has no UUID."""

    record_id: UUID | str | None
    what: str

    @property
    def sentence(self) -> str:
        """What it means for the log, without a full stop."""
        verdict = "cannot be verified" if self.what.startswith(KEY_IS_MISSING) else "was tampered with"
        return f"The operations log {verdict}: {self}"

    def __str__(self) -> str:
        return f"record {self.record_id} {self.what}" if self.record_id else self.what


@dataclass(slots=True)
class Progress:
    """How much was looked at, and how much the gateway has removed itself."""

    seals: int = 0
    records: int = 0
    unsealed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Removal:
    """A seal that says that the gateway removed complete records, those before `kept_from` that were sealed before."""

    seal: int
    kept_from: UUID
    removed: int


def keep_verification(progress: Progress, finding: Finding | None) -> None:
    """Note that the log was verified now, and the first thing that was wrong; in place of the note before."""
    verification = LogVerification(
        seals=progress.seals, records=progress.records, finding=None if finding is None else str(finding)
    )
    verification.mac = verification_mac(verification)
    with transaction.atomic():
        LogVerification.objects.all().delete()
        verification.save()


def last_verification() -> LogVerification | None:
    """How the last verification ended; None when there was none, or when the note of it is not the gateway's."""
    newest = LogVerification.objects.order_by("-id").first()
    return newest if newest is not None and is_authentic_verification(newest) else None


def find_missing_keys() -> Iterator[Finding]:
    """The keys that made seals and are not configured any more, numbered in the order in which they came into use."""
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
    """By the name of each key that made seals: the first and the last of them, in the order of the first."""
    used = LogSeal.objects.exclude(key="").order_by().values("key").annotate(first=Min("number"), last=Max("number"))
    by_first = sorted(used, key=lambda item: item["first"])
    return {item["key"]: (item["first"], item["last"]) for item in by_first}


def find_removals(*, after: int = 0) -> list[Removal]:
    """The removals after a seal, in their order. A seal that is not the gateway's excuses nothing."""
    found = []
    alone = LogSeal.objects.annotate(octets=Length("entries")).filter(octets=ENTRY_BYTES, number__gt=after)
    for seal in read_rows(alone):
        if isinstance(seal, Malformed):
            continue
        (entry,) = unpack(bytes(seal.entries))
        if entry.phase != REMOVED:
            continue
        previous = read_by_key(LogSeal, [seal.number - 1]).get(seal.number - 1)
        if not isinstance(previous, Malformed) and follows(seal, previous):
            found.append(Removal(seal.number, entry.record_id, count_removed(entry)))
    return found


@dataclass(slots=True)
class _Excuses:
    """Which records are missing because the gateway removed them.

    `missing` counts them by removal; `waiting` are those sealed while open of which a later seal has to say that they
    were completed: an open one is never removed.
    """

    removals: list[Removal]
    missing: list[int] = field(init=False)
    waiting: set[UUID] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.missing = [0] * len(self.removals)

    def look_again(self) -> None:
        """Records may be removed while the log is being verified; how many is then not counted."""
        self.removals += find_removals(after=self.removals[-1].seal if self.removals else 0)

    def find(self, seal: int, record_id: UUID) -> int | None:
        """The place of the removal that took the record if it was complete in this seal.

        Seals and moments both grow from one removal to the next.
        """
        place = max(
            bisect_right(self.removals, seal, key=lambda removal: removal.seal),
            bisect_right(self.removals, record_id, key=lambda removal: removal.kept_from),
        )
        return place if place < len(self.removals) else None

    def note(self, place: int, entry: Entry) -> None:
        """A record is missing that this removal may have taken."""
        if entry.phase == OPEN:
            self.waiting.add(entry.record_id)
        else:
            self.waiting.discard(entry.record_id)
            if place < len(self.missing):
                self.missing[place] += 1

    def contradictions(self) -> Iterator[Finding]:
        for record_id in sorted(self.waiting):
            yield Finding(record_id, "was deleted")
        for removal, missing in zip(self.removals, self.missing, strict=False):
            if missing != removal.removed:
                yield Finding(
                    None, f"seal {removal.seal} tells of {removal.removed} records removed, but {missing} are missing"
                )


def why_doubted(record: OperationRecord) -> str | None:
    """In a sentence, why one record is not to be believed; None when it is as the gateway wrote it.

    Whether others are missing beside it, only looking at the whole log tells.
    """
    missing = next(find_missing_keys(), None)
    if missing is not None:
        return message("It cannot be verified: {why}.", why=missing.what)
    if record.sealed_as == SealedAs.REFUSED or not is_authentic(record):
        return message("It was changed after it was written, or was never written by the gateway.")
    if record.seal is None:
        return None
    seal = read_by_key(LogSeal, [record.seal]).get(record.seal)
    if seal is None or isinstance(seal, Malformed):
        return (
            message("Seal {number}, which it was in, is missing.", number=record.seal)
            if seal is None
            else message("Seal {number}, which it was in, is malformed.", number=record.seal)
        )
    entries = [entry for entry in unpack(bytes(seal.entries)) if entry.record_id == record.id]
    if not entries or not agrees(entries[-1], record):
        return message(
            "It is not as seal {number} holds it: it was changed after it had been sealed.", number=seal.number
        )
    return None


def find_tampering(head: Head | None = None, progress: Progress | None = None) -> Generator[Finding]:
    """What is wrong with the log, first things first. `head` is one that was exported earlier.

    That seals were cut off the end together with their records shows by it, and by the gateway's own mark.
    """
    progress = progress or Progress()
    if missing := list(find_missing_keys()):
        yield from missing
        return
    mark = find_mark()  # before the seals are read: it moves on behind them
    previous: LogSeal | Malformed | None = None
    expected = 1
    head_was_seen = head is None
    excuses = _Excuses(find_removals())
    for seal in read_rows(LogSeal.objects.all(), at_once=20):
        seal = _unless_cut_short(seal)  # noqa: PLW2901 - from here on it is that
        if isinstance(seal, Malformed):
            yield Finding(None, f"seal {seal.key} is malformed: {seal.what}")
            previous, expected = seal, int(seal.key) + 1 if seal.key.isdecimal() else expected
            continue
        if seal.number != expected:
            yield Finding(None, message("seal {number} is missing", number=expected))
        elif not isinstance(previous, Malformed) and not follows(seal, previous):
            yield Finding(None, message("seal {number} was changed", number=seal.number))
        if head and seal.number == head["seal"]:
            head_was_seen = seal.mac == head["mac"]
        entries = list(unpack(bytes(seal.entries)))
        yield from _check_entries(seal, entries, excuses)
        progress.seals += 1
        progress.records += sum(entry.phase == FINAL for entry in entries)
        previous, expected = seal, seal.number + 1
    yield from excuses.contradictions()
    progress.removed = sum(excuses.missing)
    progress.records -= progress.removed
    if head and not head_was_seen:
        yield Finding(
            None, f"the log was cut or made anew: seal {head['seal']} of the head is not its seal {head['seal']}"
        )
    if mark and not is_held(mark):
        yield Finding(None, what_is_missing(mark))
    yield from _check_others(progress)


def _unless_cut_short(seal: LogSeal | Malformed) -> LogSeal | Malformed:
    if isinstance(seal, LogSeal) and len(seal.entries) % ENTRY_BYTES:
        return Malformed(str(seal.number), "entries end in the midst of one")
    return seal


def _check_entries(seal: LogSeal, entries: list[Entry], excuses: _Excuses) -> Iterator[Finding]:
    """The records of one seal: those it names, and those that claim to be in it."""
    for some in _chunks([entry for entry in entries if entry.phase != REMOVED]):
        records = read_by_key(OperationRecord, [entry.record_id for entry in some])
        for entry in some:
            record = records.get(entry.record_id)
            if isinstance(record, Malformed):
                yield Finding(entry.record_id, f"is malformed: {record.what}")
            elif (finding := _check_entry(seal, entry, record, excuses)) is not None:
                yield Finding(entry.record_id, finding)
    named = {entry.record_id for entry in entries}
    for found in read_keys(OperationRecord.objects.filter(seal=seal.number)):
        if isinstance(found, Malformed):
            yield _malformed(found)
        elif found not in named:
            yield Finding(found, "was inserted")


def _check_entry(seal: LogSeal, entry: Entry, record: OperationRecord | None, excuses: _Excuses) -> str | None:
    """What is wrong with a record that a seal names."""
    removal = excuses.find(seal.number, entry.record_id)
    if record is None:
        if removal is None:
            excuses.look_again()
            removal = excuses.find(seal.number, entry.record_id)
        if removal is None:
            return "was deleted"
        excuses.note(removal, entry)
        return None
    if removal is not None and entry.phase == FINAL:
        return "was put back after it had been removed"
    if not is_authentic(record) or not agrees(entry, record):
        return "was changed"
    if entry.phase == FINAL and (record.sealed_as, record.seal) != (SealedAs.FINAL, seal.number):
        return f"was taken from seal {seal.number}"
    return None


def _check_others(progress: Progress) -> Iterator[Finding]:
    """The records that no seal names: those of the last seconds, and what somebody else put there."""
    for record in read_rows(OperationRecord.objects.filter(seal__isnull=True)):
        if isinstance(record, Malformed):
            yield _malformed(record)
        elif not is_authentic(record):
            yield Finding(record.id, "was inserted or changed")
        elif record.seal is not None:
            continue  # sealed since its key was read
        elif record.sealed_as is not None:
            yield Finding(record.id, "was taken from its seal")
        else:
            progress.unsealed += 1
    # Of seals that are missing or never were. More may have been made since, but these are there.
    is_missing = ~Exists(LogSeal.objects.filter(number=OuterRef("seal")))
    for key in read_keys(OperationRecord.objects.filter(is_missing, seal__isnull=False)):
        yield _malformed(key) if isinstance(key, Malformed) else Finding(key, "is in a seal that is missing")


def _malformed(record: Malformed) -> Finding:
    return Finding(record.key, f"is malformed: {record.what}")


def _chunks(entries: list[Entry]) -> Iterator[list[Entry]]:
    remaining = iter(entries)
    while some := list(islice(remaining, AT_ONCE)):
        yield some
