"""Events for the endpoints of webhooks: which there are, and their signatures (https://www.standardwebhooks.com).

An event is put beside what it tells of, in the same transaction: it is sent if and only if that happened, at least
once. Sending is in `delivery`.
"""

import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from audit.models import OperationRecord, Outcome
from audit.shapes import record_as_json
from audit.webhooks.catalogue import OF_OUTCOMES, OF_STATUSES
from audit.webhooks.chat import ChatMessage, body_of
from audit.webhooks.models import DeliveryState, EndpointFormat, EventGroup, WebhookDelivery, WebhookEndpoint
from core.database import shared_clock
from core.operation import Effect, find_operation
from core.shapes import render_timestamp

KEPT = timedelta(days=7)
"""How long a delivered event can be looked at."""


def enqueue_records(records: Iterable[OperationRecord]) -> None:
    """An event for each closed record and each endpoint that asked for it; joins the caller's transaction."""
    endpoints = _endpoints()
    if not endpoints:
        return
    deliveries = []
    for record in records:
        event = OF_OUTCOMES.get(Outcome(record.outcome))
        group = EventGroup.READS if _is_read(record.operation) else EventGroup.CHANGES
        wanted = [endpoint for endpoint in endpoints if group in endpoint.events]
        if event and wanted and group in event.groups:
            deliveries += _deliveries(wanted, event.name, record_as_json(record))
    WebhookDelivery.objects.bulk_create(deliveries)


def enqueue_change_request(
    status: str, describe: Callable[[], Any], tell: Callable[[], ChatMessage | None] = lambda: None
) -> None:
    """An event for a change request that has come to a status; joins the caller's transaction.

    `tell` gives the message for people, None where there is nothing that they would want to hear.
    """
    event = OF_STATUSES.get(status)
    if event is None:
        return
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
    """The value of `webhook-signature`: HMAC-SHA-256 over id, time and body."""
    key = b64decode(secret.removeprefix("whsec_"))
    signed = hmac.digest(key, f"{message_id}.{timestamp}.".encode() + body, sha256)
    return "v1," + b64encode(signed).decode("ascii")


def forget_delivered() -> int:
    """Remove what was delivered long ago; how many."""
    delivered = WebhookDelivery.objects.filter(state=DeliveryState.DELIVERED, created_at__lt=shared_clock.now() - KEPT)
    return delivered.delete()[0]


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
