"""Limits on the work that calls bring: items of batches and values of lists (`RateLimiting:BatchItems`), and changes of
agents (`Agents:ChangesPerHour`): a deceived or runaway one floods neither the people who decide nor the directory.
"""

from collections.abc import Sequence
from typing import Any

from django.conf import settings

from core.call import Call, Surface
from core.configuration import RateLimit
from core.errors import RateLimited, ServiceUnavailable
from core.rate_limits import CountersUnavailable, Policy, count, current_limits
from core.text.messages import message

VALUES_OF_ONE = 10
"""Values that cost about as much as one item: each may be a name that has to be looked up."""


def charge(call: Call, documents: Sequence[Any], *, items: int = 0) -> None:
    """Count a batch, or the lists in a single call's body; raises RateLimited before anything is done.

    What a worker does was counted when it was asked for.
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
            retry_after=usage.rest,
            why=message(
                "This counts as {weight} items and the limit is {quota}: split it", weight=weight, quota=policy.quota
            ),
        )
    if usage.is_exceeded:
        raise RateLimited(retry_after=usage.rest)


def count_change_of_agent(call: Call) -> None:
    """Count a change that one agent of one person asks for; raises RateLimited, or ServiceUnavailable without counters.

    What is asked for in vain, or as a dry run, is free. How much may wait for a person, `approvals.queue` knows.
    """
    if call.surface is not Surface.AGENT:
        return
    limit = RateLimit(Requests=settings.CONFIGURATION.Agents.ChangesPerHour, WindowSeconds=3600)
    try:
        (usage,) = count([(Policy.of("AgentChanges", limit), call.credential.unique_id)])
    except CountersUnavailable:
        raise ServiceUnavailable(message("Changes of agents wait until they can be counted.")) from None
    if usage.is_exceeded:
        why = message("This agent has asked for {requests} changes within an hour", requests=limit.Requests)
        raise RateLimited(retry_after=usage.rest, why=why)


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
