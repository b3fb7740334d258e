"""The brake on agents: a deceived or runaway one floods neither the people who decide nor the directory.

It counts what one agent of one person asks for. What is asked for in vain, or only to see what it would do, is free.
How much may wait for a person, `approvals.queue` knows.
"""

from django.conf import settings

from core.call import Call, Surface
from core.configuration import RateLimit
from core.errors import RateLimited, ServiceUnavailable
from core.rate_limits import CountersUnavailable, Policy, count

_HOUR = 3600


def count_change(call: Call) -> None:
    """Count a change that an agent asks for; raises RateLimited, or ServiceUnavailable when it cannot be counted."""
    if call.surface is not Surface.AGENT:
        return
    limit = RateLimit(Requests=settings.CONFIGURATION.Agents.ChangesPerHour, WindowSeconds=_HOUR)
    try:
        (usage,) = count([(Policy.of("AgentChanges", limit), call.credential.unique_id)])
    except CountersUnavailable:
        raise ServiceUnavailable("Changes of agents wait until they can be counted.") from None
    if usage.is_exceeded:
        why = f"This agent has asked for {limit.Requests} changes within an hour"
        raise RateLimited(retry_after=usage.rest, why=why)
