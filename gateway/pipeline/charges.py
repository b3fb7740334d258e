"""What a request brings besides itself, counted against `RateLimiting:BatchItems`: items, and the values of lists."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from gateway.core.call import Call, Surface
from gateway.core.errors import RateLimited
from gateway.core.rate_limits import CountersUnavailable, Policy, count, current_limits

VALUES_OF_ONE = 10
"""So many values cost about what one item does: each may be a name that is looked up."""


def charge(call: Call, documents: Sequence[Any], *, items: int = 0) -> None:
    """Count the items of a batch, or what a single call brings; raises RateLimited before anything is done.

    A worker does what was counted when it was asked for.
    """
    weight = items + _values_in(documents) // VALUES_OF_ONE
    configuration = settings.CONFIGURATION.RateLimiting
    if not weight or not configuration.Enabled or call.surface is Surface.WORKER:
        return
    policy = Policy.of("BatchItems", configuration.BatchItems)
    try:
        (usage,) = count([(policy, call.credential.unique_id)], amount=weight)
    except CountersUnavailable:
        return
    if limits := current_limits.get():
        limits.usages.append(usage)
    if weight > policy.quota:
        raise RateLimited(
            retry_after=usage.rest, why=f"It counts as {weight} items, and {policy.quota} may be: split it"
        )
    if usage.is_exceeded:
        raise RateLimited(retry_after=usage.rest)


def _values_in(documents: Sequence[Any]) -> int:
    """How many values the lists in them have, at whatever depth."""
    number, rest = 0, list(documents)
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest.extend(each.values())
        elif isinstance(each, list):
            number += len(each)
            rest.extend(each)
    return number
