"""The brake on agents: a deceived or runaway one floods neither the people who decide nor the directory.

It counts what one agent of one person asks for. What is asked for in vain, or only to see what it would do, is free.
"""

from django.conf import settings

from approvals.queue import count_waiting_of
from gateway.core.call import Call, Surface
from gateway.core.configuration import RateLimit
from gateway.core.errors import RateLimited, ServiceUnavailable
from gateway.core.rate_limits import CountersUnavailable, Policy, count

_HOUR = 3600
_LOOK_AGAIN = 300
"""Seconds. People decide when they decide; so long an agent can do something else."""


def require_room_to_wait(call: Call) -> None:
    """Refuse one more change that would wait for a person while too many of the agent do; raises RateLimited."""
    most = settings.CONFIGURATION.Agents.MaxPendingRequests
    if call.surface is Surface.AGENT and count_waiting_of(call.credential.unique_id) >= most:
        why = f"{most} changes of this agent wait for a person: go on when some of them are decided"
        raise RateLimited(retry_after=_LOOK_AGAIN, why=why)


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
