"""Limits of what is off the hot path, counted by django-ratelimit. The contract's own are in `core.rate_limits`.

Its windows end by the clock of whichever host counts, and each limit takes several round trips: neither matters here.
"""

from contextlib import suppress

from django.conf import settings
from django_ratelimit.core import get_usage
from redis import RedisError

from core.configuration import RateLimit
from core.errors import RateLimited
from core.rate_limits import CountersUnavailable, Policy, Usage


def usage_of(name: str, subject: str, limit: RateLimit, *, counting: bool = True) -> Usage:
    """How far a subject has used a limit up, with this time if it is counted; raises CountersUnavailable."""
    rate = (limit.Requests, limit.WindowSeconds)
    try:
        found = get_usage(None, group=name, key=lambda *_: subject, rate=rate, increment=counting)
    except RedisError as error:
        raise CountersUnavailable from error
    return Usage(Policy.of(name, limit), found["count"], max(1, found["time_left"]))


def require_below_limit(name: str, subject: str, limit: RateLimit) -> None:
    """Count what a subject does; raises RateLimited. While Redis is away nothing is refused for that."""
    if settings.CONFIGURATION.RateLimiting.Enabled:
        with suppress(CountersUnavailable):
            usage = usage_of(name, subject, limit)
            if usage.is_exceeded:
                raise RateLimited(retry_after=usage.rest)
