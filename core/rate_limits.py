"""Counts requests against the rate limits, in Redis, for all processes. The middleware decides which limits apply.

One script counts all limits of a request in 0.12 ms. django-ratelimit counts what is off the hot path: its windows end
by the clock of the host that counts, and each limit takes several round trips, neither of which matters there.
"""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import NamedTuple
from uuid import UUID

import structlog
from django.conf import settings
from django_ratelimit.core import get_usage
from redis import RedisError

from core.configuration_sections import RateLimit
from core.errors import LIMIT_REACHED, RateLimited, ServiceUnavailable
from core.operation import RateCategory
from core.redis.clients import QuickRedis, RedisUnavailable, Script
from core.text.messages import message

logger = structlog.get_logger(__name__)

# A window begins with its first request and ends when the key expires. So Redis' clock alone decides, however far the
# hosts' clocks differ, and PTTL is exactly what is left.
_COUNT = Script("""
local answer = {}
for i, key in ipairs(KEYS) do
    answer[2 * i - 1] = redis.call('INCRBY', key, ARGV[#KEYS + 1])
    local rest = redis.call('PTTL', key)
    if rest < 0 then
        rest = tonumber(ARGV[i])
        redis.call('PEXPIRE', key, rest)
    end
    answer[2 * i] = rest
end
return table.concat(answer, ' ')
""")

PASSWORD_CATEGORIES = (RateCategory.PASSWORD_RESET, RateCategory.PASSWORD_CHANGE)
"""Refused while nothing can be counted: stopping Redis must not make guessing passwords free."""
PASSWORDS_WAIT = message("Password operations wait until the rate limits can be counted.")


class CountersUnavailable(Exception):
    """Redis does not answer; nothing was counted."""


class Policy(NamedTuple):
    """One limit: at most `quota` requests in `window` seconds. `rule` distinguishes path limits of one category."""

    name: str
    quota: int
    window: int
    rule: str = ""

    @classmethod
    def of(cls, name: str, limit: RateLimit, rule: str = "") -> "Policy":
        return cls(name, limit.Requests, limit.WindowSeconds, rule)

    def key(self, subject: str) -> str:
        return f"gateway:limit:{self.name}:{self.rule}:{self.quota}:{self.window}:{subject}"


class Usage(NamedTuple):
    """How far a subject has used up a policy; `seconds_left` are whole seconds until the window ends, at least 1."""

    policy: Policy
    requests: int
    seconds_left: int

    @property
    def is_exceeded(self) -> bool:
        return self.requests > self.policy.quota

    @property
    def remaining(self) -> int:
        return max(0, self.policy.quota - self.requests)


@dataclass(slots=True)
class RequestLimits:
    """The limits of the request being served: what was counted, the path's own limit and the category's, if any."""

    category: RateCategory = RateCategory.GLOBAL
    override: Policy | None = None
    of_category: Policy | None = None
    usages: list[Usage] = field(default_factory=list)

    @property
    def own(self) -> Policy | None:
        """The limit that applies besides the global one."""
        return self.override or self.of_category

    @property
    def exceeded(self) -> list[Usage]:
        return [usage for usage in self.usages if usage.is_exceeded]


current_limits: ContextVar[RequestLimits | None] = ContextVar("current_limits", default=None)


@lru_cache(maxsize=1)
def _redis(url: str) -> QuickRedis:
    return QuickRedis(url, without="rate limits not counted")


_Counted = tuple[Policy, str]
"""A policy and the subject that is counted."""


@lru_cache(maxsize=4096)
def _words(counted: tuple[_Counted, ...], amount: int) -> tuple[list[str], list[str]]:
    """The keys and arguments of the script that counts."""
    keys = [policy.key(subject) for policy, subject in counted]
    return keys, [*(str(policy.window * 1000) for policy, _ in counted), str(amount)]


class Counters:
    """What each request of a client counts against: limits, each with its subject."""

    is_far_below = False
    """Whether the last request left all of them far from exceeded; whoever counts sets it."""

    def __init__(self, *counted: _Counted) -> None:
        self.counted = counted
        self._redis = _redis(settings.REDIS_URL)
        self._command = _COUNT.command(*_words(counted, 1))

    def begin(self) -> Callable[[], list[Usage]]:
        """Count a request from the event loop; return a function that waits for the usages. Both raise WouldBlock.

        Raises CountersUnavailable.
        """
        try:
            end = self._redis.begin(self._command)
        except RedisUnavailable as error:
            raise CountersUnavailable from error
        return lambda: _usages(self.counted, end())


def count(counted: Sequence[_Counted], *, amount: int = 1) -> list[Usage]:
    """Count one request, or `amount`, against each policy for its subject, atomically. Raises CountersUnavailable."""
    try:
        return _usages(counted, _redis(settings.REDIS_URL).run(_COUNT, *_words(tuple(counted), amount)))
    except RedisUnavailable as error:
        raise CountersUnavailable from error


def _usages(counted: Sequence[_Counted], answer: bytes) -> list[Usage]:
    numbers = answer.split()  # for each its new count, and the milliseconds until it expires
    return [
        Usage(policy, int(number), -(-int(milliseconds) // 1000) or 1)
        for (policy, _), number, milliseconds in zip(counted, numbers[::2], numbers[1::2], strict=True)
    ]


@lru_cache(maxsize=4096)
def address_subject(address: str) -> str:
    """The subject that an address is counted as: for IPv6 its /64, since a client can use any address of that."""
    if ip_address(address).version == 6:
        return str(ip_network((address, 64), strict=False))
    return address


def count_category(category: RateCategory, address: str, credential: str) -> None:
    """Count an agent's tool call, whose path does not reveal its category, for its address and for its credential.

    Does nothing if the path has a limit of its own, which replaces the category's, or for a password change, which its
    operation counts. Raises RateLimited, or ServiceUnavailable for password resets that cannot be counted.
    """
    limits = current_limits.get()
    if category is not RateCategory.PASSWORD_CHANGE and not (limits and limits.override):
        policy = Policy.of(category, getattr(settings.CONFIGURATION.RateLimiting, category))
        # The middleware has counted every request for its address.
        addresses = () if category is RateCategory.GLOBAL else (address_subject(address),)
        count_besides(policy, *addresses, credential, is_needed=category in PASSWORD_CATEGORIES)


def count_password_change(guid: UUID) -> None:
    """Count a password change per account, however the caller named it, across all surfaces and connections.

    A limit of the request's path replaces the category's. Raises RateLimited, or ServiceUnavailable if it cannot be
    counted.
    """
    limits = current_limits.get()
    policy = limits.override if limits else None
    policy = policy or Policy.of(RateCategory.PASSWORD_CHANGE, settings.CONFIGURATION.RateLimiting.PasswordChange)
    count_besides(policy, str(guid), is_needed=True)


def count_besides(policy: Policy, *subjects: str, is_needed: bool, amount: int = 1, why: str = LIMIT_REACHED) -> None:
    """Count the request being served, or `amount`, against one more limit, for each subject.

    Raises RateLimited and, where counting `is_needed` and cannot be done now, ServiceUnavailable.
    """
    if not settings.CONFIGURATION.RateLimiting.Enabled:
        return
    try:
        usages = count([(policy, subject) for subject in subjects], amount=amount)
    except CountersUnavailable:
        if is_needed:
            raise ServiceUnavailable(PASSWORDS_WAIT) from None
        return
    if limits := current_limits.get():
        limits.usages.extend(usages)
    if exceeded := [usage.seconds_left for usage in usages if usage.is_exceeded]:
        raise RateLimited(retry_after=max(exceeded), why=why)


def usage_of(name: str, subject: str, limit: RateLimit, *, counting: bool = True) -> Usage:
    """How far a subject has used up a limit off the hot path; `counting` counts this time, too.

    Raises CountersUnavailable.
    """
    rate = (limit.Requests, limit.WindowSeconds)
    try:
        usage = get_usage(None, group=name, key=lambda *_: subject, rate=rate, increment=counting)
    except RedisError as error:
        raise CountersUnavailable from error
    return Usage(Policy.of(name, limit), usage["count"], max(1, usage["time_left"]))


def require_below_limit(name: str, subject: str, limit: RateLimit, *, waits: str | None = None) -> None:
    """Count what a subject does off the hot path; raises RateLimited.

    While Redis is away everything is allowed, unless `waits` says in a sentence what has to wait: then it raises
    ServiceUnavailable.
    """
    if not settings.CONFIGURATION.RateLimiting.Enabled:
        return
    try:
        usage = usage_of(name, subject, limit)
    except CountersUnavailable:
        if waits is not None:
            raise ServiceUnavailable(waits) from None
        return
    if usage.is_exceeded:
        raise RateLimited(retry_after=usage.seconds_left)
