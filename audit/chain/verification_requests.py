"""Having a worker verify the log when somebody asks for it: one at a time, however often they ask.

`verification` says what is verified.
"""

from typing import Final

import structlog
from django.core.cache import cache
from redis.exceptions import RedisError

from audit.chain.verification import Progress, find_tampering, keep_verification
from core.errors import ServiceUnavailable
from core.redis.broker import BrokerUnavailable, send_task
from core.text.messages import message

_logger = structlog.stdlib.get_logger(__name__)

_TASK: Final = "gateway.tasks.verify_log"
_UNDER_WAY: Final = "operations-log.verifying"
_AT_MOST: Final = 3600
"""Seconds after which a verification whose worker was killed is not waited for any more."""


def begin() -> bool:
    """Ask a worker; False when one is at it already. Raises ServiceUnavailable when the broker is away."""
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


def is_under_way() -> bool:
    """Whether a worker was asked and has not finished."""
    try:
        return bool(cache.get(_UNDER_WAY))
    except RedisError:
        return False


def verify() -> None:
    """Verify the whole log up to the first thing that is wrong, and note what came of it."""
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
