"""Who verifies the operations log and when: one process leads a verification, and workers help with the whole log.

A lease in Redis says that somebody leads, and how far it is. It is renewed on the way, so that another process may
begin, and go on where a killed one was, within a minute. Without Redis a verification works too, alone.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import structlog
from django.core.cache import cache
from django.db import DatabaseError
from redis.exceptions import RedisError

from audit.chain.verification import course_after_last, find_tampering, keep_verification
from audit.chain.verified_ranges import (
    RUNS_LAST,
    SEALS_OF_A_RANGE,
    Course,
    is_recent,
    new_run,
    newest_seal,
    verify_range_of,
)
from audit.chain.walk import Progress
from audit.models import VerifiedRange
from audit.shapes import VerificationProgressJson
from core.database import shared_clock
from core.errors import ServiceUnavailable
from core.redis.broker import BrokerUnavailable, send_task
from core.text.messages import message

_logger = structlog.stdlib.get_logger(__name__)

_TASK: Final = "gateway.tasks.verify_log"
_HELP_TASK: Final = "gateway.tasks.help_to_verify_log"
_UNDER_WAY: Final = "operations-log.verifying"
_LEADER: Final = "operations-log.verifying-leader"
_RUN: Final = "operations-log.verifying-run"
KEYS: Final = (_UNDER_WAY, _LEADER, _RUN)
_ASKED_SECONDS: Final = 600
"""How long a worker may take to begin; then somebody may ask again."""
_LEASE_SECONDS: Final = 60
_RENEWED_EVERY: Final = 5.0
_AGAIN_AFTER: Final = 20
_HELPERS: Final = 2
"""Tasks that help with the whole log, each for a few seconds before other tasks have their turn."""
_WORTH_HELP: Final = 10 * SEALS_OF_A_RANGE
WHOLE_AFTER: Final = timedelta(days=6)
"""A verification that goes on from the last reads the whole log when it was last read so long ago: once a week."""


def request_verification() -> bool:
    """Ask a worker to verify the log; False if one is doing so already. Raises ServiceUnavailable without a broker."""
    try:
        if not cache.add(_UNDER_WAY, True, _ASKED_SECONDS):
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
    """Whether a worker was asked to verify the log and has not finished, or somebody verifies it."""
    try:
        return bool(cache.get(_UNDER_WAY))
    except RedisError:
        return False


def find_progress() -> VerificationProgressJson | None:
    """How far the verification under way is; None where there is none, or it has not begun."""
    with suppress(RedisError):
        found: Any = cache.get(_UNDER_WAY)
        if isinstance(found, dict):
            return {"firstSeal": found["firstSeal"], "seal": found["seal"], "lastSeal": found["lastSeal"]}
    return None


def verify_as_asked() -> None:
    """Do what a worker was asked for, unless it is done, or go on with what a killed one has left.

    Where that one may still be at work, look again later.
    """
    try:
        if not (cache.get(_UNDER_WAY) or cache.get(_RUN)):
            return
        if cache.get(_LEADER):
            send_task(_TASK, countdown=_AGAIN_AFTER, ignore_result=True)
            return
    except (BrokerUnavailable, RedisError) as error:
        _logger.warning("the log is not verified now", reason=str(error))
        return
    verify()


def verify() -> None:
    """Verify the whole log up to the first sign of tampering, and store the result."""
    progress, course = Progress(), whole_course()
    with leading(course):
        finding = next(find_tampering(None, progress, course), None)
        keep_verification(progress, finding)
    if finding is not None:
        _logger.error(finding.sentence)


def whole_course() -> Course:
    """The way along the whole log, which goes on with a verification of it that was interrupted."""
    run: UUID | None = None
    with suppress(RedisError):
        known: Any = cache.get(_RUN)
        run = known if isinstance(known, UUID) and is_recent(known) and not cache.get(_LEADER) else None
    return Course(run=run or new_run())


def course_of_the_night() -> Course:
    """The way along what is new, or once a week, and after a finding, along the whole log."""
    course = course_after_last()
    if course.base is None or shared_clock.now() - course.base.whole_at > WHOLE_AFTER:
        return whole_course()
    return course


@contextmanager
def leading(course: Course) -> Iterator[None]:
    """Lead the verification inside the block: others see how far it is, and begin none; workers help with a long one.

    Where another process leads one already, this one verifies alone. What an error ends can be gone on with.
    """
    lease = _Lease(course)
    lease.take()
    try:
        yield
        lease.forget_run()
    finally:
        lease.give_back()


@dataclass(slots=True)
class _Lease:
    """That this process leads a verification, as others see it."""

    course: Course
    _token: str = ""
    _renewed_at: float = float("-inf")

    def take(self) -> None:
        """Become the leader, if nobody is."""
        token = uuid4().hex
        try:
            if not cache.add(_LEADER, token, _LEASE_SECONDS):
                return
            self._token, self.course.beat = token, self.renew
            if self.course.run is not None:
                cache.set(_RUN, self.course.run, int(RUNS_LAST.total_seconds()))
                if newest_seal() > _WORTH_HELP:
                    for _ in range(_HELPERS):
                        send_task(_HELP_TASK, str(self.course.run), ignore_result=True)
            self.renew()
        except (RedisError, BrokerUnavailable) as error:
            _logger.warning("this process verifies the log alone", reason=str(error))

    def renew(self) -> None:
        """Say that this process is at work, and how far it is."""
        if time.monotonic() - self._renewed_at < _RENEWED_EVERY:
            return
        self._renewed_at = time.monotonic()
        first = self.course.first_seal
        seal = self.course.walk.expected - 1 if self.course.walk else first - 1
        shown: VerificationProgressJson = {"firstSeal": first, "seal": seal, "lastSeal": max(newest_seal(), seal)}
        with suppress(RedisError):
            cache.set(_LEADER, self._token, _LEASE_SECONDS)
            cache.set(_UNDER_WAY, shown, _LEASE_SECONDS)

    def forget_run(self) -> None:
        """The verification is complete: its ranges count for no other."""
        if self.course.run is None:
            return
        if self._token:
            with suppress(RedisError):
                cache.delete(_RUN)
        with suppress(DatabaseError):  # an auditor may be able to read only
            VerifiedRange.objects.filter(run=self.course.run).delete()

    def give_back(self) -> None:
        """Let others lead."""
        if not self._token:
            return
        try:
            cache.delete_many([_LEADER, _UNDER_WAY])
        except RedisError:
            _logger.warning("that the log is being verified stays noted for a minute: Redis is away")


def help_to_verify(run: str) -> None:
    """Verify a range for a verification that is under way, then let other tasks have their turn."""
    try:
        if cache.get(_RUN) == UUID(run) and verify_range_of(UUID(run)):
            send_task(_HELP_TASK, run, ignore_result=True)
    except (RedisError, BrokerUnavailable) as error:
        _logger.warning("no longer helping to verify the log", reason=str(error))
