"""Counting against the rate limits, in Redis, for all processes. Which limits a request is under, the middleware knows.

All limits of a request take 0.12 ms here; what is off the hot path is counted in `core.occasional_limits`.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from uuid import UUID

import structlog
from django.conf import settings

from core.configuration import RateLimit
from core.errors import RateLimited, ServiceUnavailable
from core.operation import RateCategory
from core.redis.quick_client import QuickRedis, RedisAway, Script
from core.text.messages import message

logger = structlog.get_logger(__name__)

# A window begins with its first request and ends with the key: Redis' clock alone decides, and PTTL is the exact rest.
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
"""Without counters these are refused: passwords must not be guessed while Redis is away."""
PASSWORDS_WAIT = message("Password operations wait until the rate limits can be counted.")


class CountersUnavailable(Exception):
    """Redis does not answer; nothing was counted."""


@dataclass(frozen=True, slots=True)
class Policy:
    """One limit: at most `quota` requests in `window` seconds. `rule` tells path overrides of one category apart."""

    name: str
    quota: int
    window: int
    rule: str = ""

    @classmethod
    def of(cls, name: str, limit: RateLimit, rule: str = "") -> "Policy":
        return cls(name, limit.Requests, limit.WindowSeconds, rule)

    def key(self, subject: str) -> str:
        return f"gateway:limit:{self.name}:{self.rule}:{self.quota}:{self.window}:{subject}"


@dataclass(frozen=True, slots=True)
class Usage:
    """How far a policy is used up; `rest` is the whole seconds until its window ends, at least 1."""

    policy: Policy
    count: int
    rest: int

    @property
    def is_exceeded(self) -> bool:
        return self.count > self.policy.quota

    @property
    def remaining(self) -> int:
        return max(0, self.policy.quota - self.count)


@dataclass(slots=True)
class RequestLimits:
    """The limits of the request being served: what was counted, and the path's own limit where it has one."""

    override: Policy | None = None
    usages: list[Usage] = field(default_factory=list)


current_limits: ContextVar[RequestLimits | None] = ContextVar("current_limits", default=None)


@lru_cache(maxsize=1)
def _redis(url: str) -> QuickRedis:
    return QuickRedis(url, without="rate limits not counted")


def _add(url: str, keys: Sequence[str], windows: Sequence[int], amount: int = 1) -> list[int]:
    """Add to counters: of each, what it counts now, and after how many milliseconds it ends."""
    try:
        answer: bytes = _redis(url).run(_COUNT, keys, [*(str(seconds * 1000) for seconds in windows), str(amount)])
    except RedisAway as error:
        raise CountersUnavailable from error
    return [int(number) for number in answer.split()]


def count(counted: Sequence[tuple[Policy, str]], *, amount: int = 1) -> list[Usage]:
    """Count one request, or an amount, against each policy for its subject, at once. Raises CountersUnavailable."""
    keys, windows = [policy.key(subject) for policy, subject in counted], [policy.window for policy, _ in counted]
    numbers = _add(settings.REDIS_URL, keys, windows, amount)
    return [
        Usage(policy, number, max(1, -(-rest // 1000)))
        for (policy, _), number, rest in zip(counted, numbers[::2], numbers[1::2], strict=True)
    ]


@lru_cache(maxsize=4096)
def address_subject(address: str) -> str:
    """What an address is counted as: an IPv6 client has a whole /64 to choose addresses from."""
    if ip_address(address).version == 6:
        return str(ip_network((address, 64), strict=False))
    return address


def count_category(category: RateCategory, address: str) -> None:
    """Count a request against the limit of a category that its own address does not tell, such as a tool's.

    A limit of the request's path has taken the category's place already. Raises RateLimited, or ServiceUnavailable
    for passwords while they cannot be counted. A password change is counted by its operation.
    """
    limits = current_limits.get()
    is_elsewhere = category in (RateCategory.GLOBAL, RateCategory.PASSWORD_CHANGE)
    if not is_elsewhere and not (limits and limits.override):
        policy = Policy.of(category, getattr(settings.CONFIGURATION.RateLimiting, category))
        _count_besides(policy, address_subject(address), is_needed=category in PASSWORD_CATEGORIES)


def count_password_change(guid: UUID) -> None:
    """Count a password change of one account, however it was named, on whichever surface and connection.

    A limit of the request's path takes the category's place. Raises RateLimited, or ServiceUnavailable when it cannot
    be counted: guessing current passwords must not become free by stopping Redis.
    """
    limits = current_limits.get()
    policy = limits.override if limits else None
    policy = policy or Policy.of(RateCategory.PASSWORD_CHANGE, settings.CONFIGURATION.RateLimiting.PasswordChange)
    _count_besides(policy, str(guid), is_needed=True)


def _count_besides(policy: Policy, subject: str, *, is_needed: bool) -> None:
    """Count the request being served against one more limit."""
    if not settings.CONFIGURATION.RateLimiting.Enabled:
        return
    try:
        (usage,) = count([(policy, subject)])
    except CountersUnavailable:
        if is_needed:
            raise ServiceUnavailable(PASSWORDS_WAIT) from None
        return
    if limits := current_limits.get():
        limits.usages.append(usage)
    if usage.is_exceeded:
        raise RateLimited(retry_after=usage.rest)
