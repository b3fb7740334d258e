"""Looks for tampering in the operations log: checks every seal and every record, in the order of the chain.

A table beside the log keeps the result of the last verification. A worker verifies when somebody asks for it, one at a
time.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Final
from uuid import UUID

import structlog
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.db.models import Max, Min
from redis.exceptions import RedisError

from audit.chain.checkpoint import Head, describe_loss, find_checkpoint, is_in_log
from audit.chain.presence import NOTHING, NamedRecords, Stock, find_unnamed, take_stock
from audit.chain.row_checks import UNREADABLE, MalformedRow, read_by_key
from audit.chain.seals import (
    FINAL,
    find_entries,
    is_authentic,
    is_authentic_verification,
    matches_entry,
    name_of_key,
    verification_mac,
)
from audit.chain.verified_ranges import Course, find_ranges
from audit.chain.walk import PUT_BACK, Finding, Progress, Walk, in_chunks
from audit.models import OPEN_OUTCOMES, LogSeal, LogVerification, OperationRecord, SealedAs, UnsealedRecord
from core.database.time_limit import QueryTookTooLong, time_limit
from core.shapes import render_timestamp
from core.text.messages import message

_logger = structlog.stdlib.get_logger(__name__)


def keep_verification(progress: Progress, finding: Finding | None) -> None:
    """Store the result of a verification that ended now, in place of the previous one."""
    verification = LogVerification(
        seals=progress.seals,
        records=progress.records,
        finding=None if finding is None else str(finding),
        first_seal=None if progress.first_seal == 1 else progress.first_seal,
    )
    verification.mac = verification_mac(verification)
    _keep_doubt(finding is not None, is_whole=progress.first_seal == 1)
    with transaction.atomic():
        LogVerification.objects.all().delete()
        verification.save()


_DOUBT: Final = "operations-log.doubt"
"""Kept in Redis as long as the last finding stands: whoever can write to the database could take it out of there."""


def _keep_doubt(was_found: bool, *, is_whole: bool) -> None:
    try:
        if was_found:
            cache.set(_DOUBT, True, None)
        elif is_whole:
            cache.delete(_DOUBT)
    except RedisError:
        _logger.warning("what the verification found is not in Redis, only in the database")


def course_after_last() -> Course:
    """How to verify what is new since the last verification: the whole log if that found anything, or never was."""
    last = last_verification()
    try:
        is_in_doubt = bool(cache.get(_DOUBT))
    except RedisError:
        is_in_doubt = False
    return Course() if is_in_doubt or (last is not None and last.finding) else Course.after_last()


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
    """The first and the last seal that each key made, by the key's identifier, in the order of first use.

    Of seals that were verified it is known, so that only those after them are read.
    """
    ranges = (verified for verified in find_ranges() if verified.learnt.knows_beginning)
    known = next((verified.learnt for verified in ranges if verified.is_in_log), None)
    found = {key: (first, last) for key, (first, last) in known.keys.items()} if known else {}
    new = LogSeal.objects.filter(number__gt=known.last) if known else LogSeal.objects.all()
    for key, first, last in new.order_by().values_list("key").annotate(first=Min("number"), last=Max("number")):
        found[key] = (found.get(key, (first,))[0], last)
    return {key: found[key] for key in sorted(found, key=lambda key: found[key]) if key}


_SECONDS_FOR_KEYS: Final = 1.0


def reason_for_doubt(record: OperationRecord) -> str | None:
    """Why one record cannot be trusted, in a sentence; None if it is as the gateway wrote it."""
    return reasons_for_doubt([record]).get(str(record.id))


def reasons_for_doubt(records: Iterable[OperationRecord]) -> dict[str, str]:
    """Why records cannot be trusted, each in a sentence, by their identifiers; those that can be are left out.

    Only verifying the whole log tells whether other records are missing.
    """
    doubts = {str(record.id): doubt for record in records if (doubt := _contradiction(record)) is not None}
    if not doubts:
        return {}
    try:  # only doubtful records are worth it: all seals are read for their keys
        with time_limit(_SECONDS_FOR_KEYS):
            missing = next(find_missing_keys(), None)
    except QueryTookTooLong:
        missing = None  # the last verification of the log, shown beside, says which key is missing
    if missing is None:
        return doubts
    return dict.fromkeys(doubts, message("It cannot be verified: {why}.", why=missing.complaint))


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


def find_tampering(
    head: Head | None = None, progress: Progress | None = None, course: Course | None = None
) -> Generator[Finding]:
    """Yield the signs of tampering in the order of the chain.

    An exported `head`, the gateway's own checkpoint and what was verified before reveal that seals were cut off
    together with their records. Without a `course` it reads the whole log and keeps nothing.
    """
    progress, keeps, course = progress or Progress(), course is not None, course or Course()
    if missing := list(find_missing_keys()):  # without a key everything that it sealed would look forged
        yield from missing
        return
    checkpoint = find_checkpoint()  # first: one that advances meanwhile would name a seal newer than those read below
    walk, is_clean = course.begin(progress), True
    for finding in _walk_and_compare(walk, course, head, checkpoint):
        is_clean = False
        yield finding
    if is_clean and keeps:
        course.finish(walk)


def _walk_and_compare(walk: Walk, course: Course, head: Head | None, checkpoint: Head | None) -> Iterator[Finding]:
    ranges, progress, gaps = find_ranges(), walk.progress, walk.gaps
    yield from course.check(walk)
    stock = take_stock(since=course.since)
    yield from walk.check(LogSeal.objects.filter(number__range=(walk.expected, stock.newest_seal)))
    yield from gaps.contradictions(up_to=walk.stated_until)
    progress.removed = gaps.missing.total()
    progress.records -= progress.removed
    if head and not is_in_log(head):
        yield Finding(
            None, f"the log was cut or made anew: seal {head['seal']} of the head is not its seal {head['seal']}"
        )
    if checkpoint and not is_in_log(checkpoint):
        yield Finding(None, describe_loss(checkpoint))
    for verified in ranges:
        if not verified.is_in_log:
            at = render_timestamp(verified.at)
            yield Finding(
                None, f"the log was cut or made anew: it was verified up to seal {verified.learnt.last}, {at}"
            )
    gaps.load_new_removals()
    removed_before = gaps.removals[-1].kept_from if gaps.removals else NOTHING
    yield from _check_unsealed(walk, stock, removed_before)
    yield from _check_open(walk.named, stock)


def _check_unsealed(walk: Walk, stock: Stock, removed_before: UUID) -> Iterator[Finding]:
    """Check the records that are listed to be sealed, those of the last seconds, and find those that are nowhere."""
    named = walk.named
    for some in in_chunks(map(UUID, sorted(stock.listed))):
        records = read_by_key(OperationRecord, some)
        for record_id in some:
            record = records.get(record_id)
            if record is None:
                yield Finding(record_id, "was deleted")
            elif isinstance(record, MalformedRow):
                yield _malformed(record)
            elif not is_authentic(record):
                yield Finding(record_id, "was inserted or changed")
            elif record_id in named.open:
                continue
            elif record_id < walk.closed.kept_from:
                yield Finding(record_id, PUT_BACK)
            else:
                walk.progress.unsealed += 1
    for key in find_unnamed(named, stock, removed_before=removed_before):
        yield _malformed(key) if isinstance(key, MalformedRow) else Finding(key, "is in no seal")


def _check_open(named: NamedRecords, stock: Stock) -> Iterator[Finding]:
    """Check that records sealed open are open still, or listed to be sealed again."""
    for some in in_chunks(sorted(named.open)):
        for record_id, record in read_by_key(OperationRecord, some).items():
            if isinstance(record, MalformedRow) or record.outcome in OPEN_OUTCOMES or record_id.hex in stock.listed:
                continue
            is_listed = UnsealedRecord.objects.filter(record_id=record_id).exists()  # completed meanwhile
            if not is_listed and not _is_sealed_complete(record_id):
                yield Finding(record_id, "is in no seal as it is")


def _is_sealed_complete(record_id: UUID) -> bool:
    return any(entry.phase == FINAL for _, entry in find_entries(record_id))


def _malformed(record: MalformedRow) -> Finding:
    return Finding(record.key, f"is malformed: {record.complaint}")
