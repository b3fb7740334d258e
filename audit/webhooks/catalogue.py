"""Every event of the webhooks in one table: who gets it and what it tells. docs/events.md is made from it."""

from dataclasses import dataclass
from typing import Final

from audit.webhooks.models import EventGroup


@dataclass(frozen=True, slots=True)
class Event:
    """`groups` are those that an endpoint can ask for to get it."""

    groups: tuple[EventGroup, ...]
    meaning: str


_OPERATION = (EventGroup.CHANGES, EventGroup.READS)
_REQUEST = (EventGroup.CHANGE_REQUESTS,)

EVENTS: Final[dict[str, Event]] = {
    "operation.succeeded": Event(_OPERATION, "An operation was carried out."),
    "operation.failed": Event(_OPERATION, "An operation was refused or failed; `code` says why."),
    "operation.queued": Event(
        (EventGroup.CHANGES,), "A change waits for a decision; `changeRequestId` names the request."
    ),
    "change-request.pending": Event(_REQUEST, "A change waits for a person's decision."),
    "change-request.approved": Event(_REQUEST, "It was approved and is about to be applied."),
    "change-request.applying": Event(_REQUEST, "A worker has begun to apply it."),
    "change-request.applied": Event(_REQUEST, "It was applied."),
    "change-request.failed": Event(_REQUEST, "It was approved but could not be applied; `problem` says why."),
    "change-request.unknown": Event(
        _REQUEST, "It was sent to the directory, and the answer was lost. Another event follows when it is known."
    ),
    "change-request.stale": Event(_REQUEST, "The values concerned changed after the request. Nothing was applied."),
    "change-request.rejected": Event(_REQUEST, "It was rejected; `comment` says why."),
    "change-request.expired": Event(_REQUEST, "Nobody decided in time."),
    "change-request.cancelled": Event(_REQUEST, "Its requester cancelled it."),
}
