"""What is off the hot path is limited, and is not refused because Redis is away."""

from typing import Any
from uuid import uuid4

import pytest

from core.configuration_sections import RateLimit
from core.errors import RateLimited
from core.rate_limits import CountersUnavailable, require_below_limit, usage_of
from lab.services import free_port

LIMIT = RateLimit(Requests=2, WindowSeconds=3600)


def test_more_than_the_limit_is_refused(limited: None) -> None:
    someone = str(uuid4())
    require_below_limit("Test", someone, LIMIT)
    require_below_limit("Test", someone, LIMIT)
    with pytest.raises(RateLimited) as refusal:
        require_below_limit("Test", someone, LIMIT)
    assert 0 < int(refusal.value.headers["Retry-After"]) <= LIMIT.WindowSeconds
    require_below_limit("Test", str(uuid4()), LIMIT)
    require_below_limit("Another", someone, LIMIT)


def test_looking_counts_nothing(limited: None) -> None:
    someone = str(uuid4())
    for _ in range(3):
        assert usage_of("Test", someone, LIMIT, counting=False).requests == 0
    assert usage_of("Test", someone, LIMIT).requests == 1


def test_nothing_is_counted_while_limits_are_off() -> None:
    someone = str(uuid4())
    for _ in range(3):
        require_below_limit("Test", someone, LIMIT)


def test_without_redis_nothing_is_refused_for_it(limited: None, settings: Any) -> None:
    away = {**settings.CACHES["default"], "LOCATION": [f"redis://127.0.0.1:{free_port()}/0"]}
    settings.CACHES = {"default": away}
    with pytest.raises(CountersUnavailable):
        usage_of("Test", "someone", LIMIT)
    for _ in range(3):
        require_below_limit("Test", "someone", LIMIT)
