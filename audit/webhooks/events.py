"""Events for webhook endpoints: their names, bodies and signatures.

docs/events.md is generated from the two tables; an outcome or status without a line sends nothing. An event is stored
in the same transaction as what it reports: it is sent, at least once, if and only if that happened (`delivery` sends).
Programs get signed events (https://www.standardwebhooks.com). People get a message through the incoming webhooks of
Slack and Microsoft Teams: a sentence with a link, without values of attributes or anything secret.
"""

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from audit.models import (
    DeliveryState,
    EndpointFormat,
    EventGroup,
    OperationRecord,
    Outcome,
    WebhookDelivery,
    WebhookEndpoint,
)
from audit.shapes import record_as_json
from core.database import shared_clock
from core.operation import Effect, find_operation
from core.shapes import render_timestamp
from core.text.invisible import text_for_people


@dataclass(frozen=True, slots=True)
class Event:
    """An endpoint gets an event if it has subscribed to one of its `groups`."""

    name: str
    groups: tuple[EventGroup, ...]
    meaning: str


_OPERATION: Final = (EventGroup.CHANGES, EventGroup.READS)
_REQUEST: Final = (EventGroup.CHANGE_REQUESTS,)

OUTCOME_EVENTS: Final = {
    Outcome.SUCCEEDED: Event("operation.succeeded", _OPERATION, "An operation was carried out."),
    Outcome.FAILED: Event("operation.failed", _OPERATION, "An operation was refused or failed; `code` says why."),
    Outcome.QUEUED: Event(
        "operation.queued",
        (EventGroup.CHANGES,),
        "A change waits for a decision; `changeRequestId` names the request.",
    ),
}
"""Events by the outcome of a closed record of the log."""

STATUS_EVENTS: Final = {
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
    "cancelled": Event(
        "change-request.cancelled", _REQUEST, "Its requester cancelled it, or the change that it ends was not made."
    ),
    "scheduled": Event(
        "change.scheduled", _REQUEST, "A change, or the end of a temporary one, is scheduled for `dueAt`."
    ),
    "reverted": Event("change.reverted", _REQUEST, "A temporary change has ended."),
    "overdue": Event(
        "change.overdue",
        _REQUEST,
        "A temporary change should have ended by now, but the directory refuses it or does not answer.",
    ),
    "superseded": Event(
        "change.superseded",
        _REQUEST,
        "It will not be made any more: somebody changed the same values for good, the directory ended it itself, or a "
        "new request took its place.",
    ),
}
"""Events by the new status of a change request."""

ENDS_SOON: Final = Event(
    "change.revert.due", _REQUEST, "A temporary change ends within a day; sent again when it ends within an hour."
)

EXCEEDED_BUDGET: Final = Event(
    "budget.exceeded",
    _REQUEST,
    "A key, an agent or a directory has used up a budget: further changes of that risk wait. Sent once in its period.",
)

USED_BREAK_GLASS: Final = Event(
    "sign-in.break-glass",
    (EventGroup.CHANGES, EventGroup.CHANGE_REQUESTS),
    "Somebody has signed in with the account `SignIn:BreakGlassAccount` while passwords are switched off.",
)


def all_events() -> Iterator[Event]:
    """All events, in the order of the documentation."""
    yield from OUTCOME_EVENTS.values()
    yield from STATUS_EVENTS.values()
    yield ENDS_SOON
    yield EXCEEDED_BUDGET
    yield USED_BREAK_GLASS


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message for people: a sentence, more facts, and a link, empty if the console's address is not configured."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    link: str = ""


def body_of(format: EndpointFormat, message: ChatMessage) -> str:
    """The JSON body of a message for Slack or Teams."""
    facts = tuple((text_for_people(name), text_for_people(value)) for name, value in message.facts)
    plain = ChatMessage(text_for_people(message.title), facts, message.link)
    content = _slack(plain) if format is EndpointFormat.SLACK else _teams(plain)
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _slack(message: ChatMessage) -> dict[str, Any]:
    """A rich text block: it formats nothing in names and reasons that others chose, and links no address in them.

    Notifications, which cannot show blocks, show `text`, in which three characters need escaping and a link is
    `<url|text>` (https://docs.slack.dev/messaging/formatting-message-text).
    """
    title = _escaped(message.title)
    lines = [f"<{message.link}|{title}>" if message.link else f"*{title}*"]
    lines += [f"{_escaped(name)}: {_escaped(value)}" for name, value in message.facts]
    style = {"bold": True}
    title_run: dict[str, Any] = {"type": "text", "text": message.title, "style": style}
    if message.link:
        title_run = {"type": "link", "url": message.link, "text": message.title, "style": style}
    runs = [title_run, *({"type": "text", "text": f"\n{name}: {value}"} for name, value in message.facts)]
    block = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": runs}]}
    return {"text": "\n".join(lines), "blocks": [block], "unfurl_links": False, "unfurl_media": False}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(message: ChatMessage) -> dict[str, Any]:
    """An adaptive card, as the workflow "When a Teams webhook request is received" takes it (schema version 1.4).

    It uses text runs only: text blocks and facts would render Markdown in names and reasons that others chose.
    """
    body = [_text_runs({"text": message.title, "weight": "Bolder"})]
    body += [_text_runs({"text": f"{name}: ", "weight": "Bolder"}, {"text": value}) for name, value in message.facts]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    if message.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": message.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text_runs(*runs: dict[str, str]) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", **run} for run in runs]}


RETENTION = timedelta(days=7)
"""How long delivered events stay in the table."""


def enqueue_records(records: Iterable[OperationRecord]) -> None:
    """Queue an event for each closed record and each subscribed endpoint, in the caller's transaction."""
    endpoints = _endpoints()
    if not endpoints:
        return
    deliveries = []
    for record in records:
        event = OUTCOME_EVENTS.get(Outcome(record.outcome))
        group = EventGroup.READS if _is_read(record.operation) else EventGroup.CHANGES
        wanted = [endpoint for endpoint in endpoints if group in endpoint.events]
        if event and wanted and group in event.groups:
            deliveries += _deliveries(wanted, event.name, record_as_json(record))
    WebhookDelivery.objects.bulk_create(deliveries)


def enqueue_change_request(
    status: str, describe: Callable[[], Any], tell: Callable[[], ChatMessage | None] = lambda: None
) -> None:
    """Queue the event of a change request's new status, in the caller's transaction.

    `describe` returns its data for programs, `tell` the message for people, None if there is nothing to tell them.
    """
    if (event := STATUS_EVENTS.get(status)) is not None:
        _enqueue(event, describe, tell)


def enqueue_end_ahead(describe: Callable[[], Any], tell: Callable[[], ChatMessage | None]) -> None:
    """Queue the event that something ends soon, in the caller's transaction."""
    _enqueue(ENDS_SOON, describe, tell)


def enqueue_exceeded_budget(facts: Mapping[str, Any], sentence: str) -> None:
    """Queue the event that a budget is used up, in the caller's transaction."""
    _enqueue(EXCEEDED_BUDGET, lambda: facts, lambda: ChatMessage(sentence))


def enqueue_break_glass(facts: Mapping[str, Any], sentence: str) -> None:
    """Queue the event that the break-glass account was used, in the caller's transaction."""
    _enqueue(USED_BREAK_GLASS, lambda: facts, lambda: ChatMessage(sentence))


def _enqueue(event: Event, describe: Callable[[], Any], tell: Callable[[], ChatMessage | None]) -> None:
    wanted = [endpoint for endpoint in _endpoints() if not {*event.groups}.isdisjoint(endpoint.events)]
    programs = [endpoint for endpoint in wanted if endpoint.format == EndpointFormat.STANDARD]
    people = [endpoint for endpoint in wanted if endpoint.format != EndpointFormat.STANDARD]
    deliveries = _deliveries(programs, event.name, describe()) if programs else []
    if people and (message := tell()) is not None:
        now = shared_clock.now()
        deliveries += [
            WebhookDelivery(
                endpoint=each, event=event.name, body=body_of(EndpointFormat(each.format), message), next_at=now
            )
            for each in people
        ]
    if deliveries:
        WebhookDelivery.objects.bulk_create(deliveries)


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`: HMAC-SHA-256 over id, timestamp and body."""
    key = b64decode(secret.removeprefix("whsec_"))
    signed = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, sha256)
    return "v1," + b64encode(signed).decode("ascii")


def delete_delivered() -> int:
    """Remove events that were delivered long ago; return how many."""
    before = shared_clock.now() - RETENTION
    return WebhookDelivery.objects.filter(state=DeliveryState.DELIVERED, created_at__lt=before).delete()[0]


def _endpoints() -> list[WebhookEndpoint]:
    return list(WebhookEndpoint.objects.filter(enabled=True))


def _is_read(operation: str) -> bool:
    try:
        return find_operation(operation).effect is Effect.READ
    except KeyError:  # of an earlier version
        return False


def _deliveries(endpoints: Iterable[WebhookEndpoint], event: str, data: Any) -> list[WebhookDelivery]:
    now = shared_clock.now()
    body = _body(event, now, data)
    return [WebhookDelivery(endpoint=endpoint, event=event, body=body, next_at=now) for endpoint in endpoints]


def _body(event: str, at: datetime, data: Any) -> str:
    content = {"type": event, "timestamp": render_timestamp(at), "data": data}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
