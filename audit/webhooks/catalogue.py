"""Every event of the webhooks in two tables: when it is sent, who gets it, what it tells. docs/events.md is made from
them; an outcome or a status without a line sends nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from audit.models import Outcome
from audit.webhooks.models import EventGroup


@dataclass(frozen=True, slots=True)
class Event:
    """`groups` are those that an endpoint can ask for to get it."""

    name: str
    groups: tuple[EventGroup, ...]
    meaning: str


_OPERATION: Final = (EventGroup.CHANGES, EventGroup.READS)
_REQUEST: Final = (EventGroup.CHANGE_REQUESTS,)

OF_OUTCOMES: Final = {
    Outcome.SUCCEEDED: Event("operation.succeeded", _OPERATION, "An operation was carried out."),
    Outcome.FAILED: Event("operation.failed", _OPERATION, "An operation was refused or failed; `code` says why."),
    Outcome.QUEUED: Event(
        "operation.queued",
        (EventGroup.CHANGES,),
        "A change waits for a decision; `changeRequestId` names the request.",
    ),
}
"""By the outcome with which a record of the log is closed."""

OF_STATUSES: Final = {
    "pending": Event("change-request.pending", _REQUEST, "A change waits for a person's decision."),
    "approved": Event("change-request.approved", _REQUEST, "It was approved and is about to be applied."),
    "applying": Event("change-request.applying", _REQUEST, "A worker has begun to apply it."),
    "applied": Event("change-request.applied", _REQUEST, "It was applied."),
    "partly-failed": Event(
        "change-request.partly-failed",
        _REQUEST,
        "It was applied, and a part of it failed; `problem` and the run say what.",
    ),
    "failed": Event("change-request.failed", _REQUEST, "It was approved but could not be applied; `problem` says why."),
    "unknown": Event(
        "change-request.unknown",
        _REQUEST,
        "It was sent to the directory, and the answer was lost. Another event follows when it is known.",
    ),
    "stale": Event(
        "change-request.stale", _REQUEST, "The values concerned changed after the request. Nothing was applied."
    ),
    "rejected": Event("change-request.rejected", _REQUEST, "It was rejected; `comment` says why."),
    "expired": Event("change-request.expired", _REQUEST, "Nobody decided in time."),
    "cancelled": Event("change-request.cancelled", _REQUEST, "Its requester cancelled it."),
}
"""By the status that a change request has come to."""


def events() -> Iterator[Event]:
    """All of them."""
    yield from OF_OUTCOMES.values()
    yield from OF_STATUSES.values()
