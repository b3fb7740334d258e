"""Describes what the gateway posts to webhook endpoints (docs/events.md), as `webhooks` of the machine surface."""

from collections.abc import Mapping
from typing import Annotated, Any

from drf_spectacular.settings import spectacular_settings
from pydantic import Field
from typing_extensions import TypedDict

from approvals.budgets import ExceededBudgetJson
from approvals.shapes import ChangeRequestJson
from audit.shapes import RecordJson
from audit.webhooks.events import ENDS_SOON, EXCEEDED_BUDGET, OUTCOME_EVENTS, STATUS_EVENTS, USED_BREAK_GLASS, Event
from core.shapes import Json, Moment
from gateway.surfaces.openapi.components import ComponentSchema

_SIGNED = (
    ("webhook-id", "The event's identifier: the same when it is sent again.", {"format": "uuid"}),
    ("webhook-timestamp", "When it was sent, in seconds since 1970.", {"pattern": "^[0-9]+$"}),
    (
        "webhook-signature",
        "`v1,` and the HMAC-SHA-256 of `{id}.{timestamp}.{body}` under the endpoint's secret, in Base64.",
        {"pattern": "^v1,"},
    ),
)
_EXPECTED = {
    "2XX": {"description": "The event has arrived. Anything else but 410 makes the gateway send it again."},
    "410": {"description": "No more events are wanted: the endpoint is disabled."},
}


_OF_REQUESTS: Mapping[Any, Event] = {**STATUS_EVENTS, "": ENDS_SOON}


def _one_of(events: Mapping[Any, Event]) -> Any:
    return Field(json_schema_extra={"enum": [event.name for event in events.values()]})


class OperationEvent(TypedDict):
    """A record of the operations log was completed."""

    type: Annotated[str, _one_of(OUTCOME_EVENTS)]
    timestamp: Moment
    data: RecordJson


class ChangeRequestEvent(TypedDict):
    """A change request has another status."""

    type: Annotated[str, _one_of(_OF_REQUESTS)]
    timestamp: Moment
    data: ChangeRequestJson


class ExceededBudgetEvent(TypedDict):
    """A budget is used up."""

    type: Annotated[str, _one_of({"": EXCEEDED_BUDGET})]
    timestamp: Moment
    data: ExceededBudgetJson


class BreakGlassJson(TypedDict):
    username: str
    address: str
    signedInAt: Moment


class BreakGlassEvent(TypedDict):
    """The break-glass account was used."""

    type: Annotated[str, _one_of({"": USED_BREAK_GLASS})]
    timestamp: Moment
    data: BreakGlassJson


_EVENTS: tuple[tuple[Any, Mapping[Any, Event]], ...] = (
    (OperationEvent, OUTCOME_EVENTS),
    (ChangeRequestEvent, _OF_REQUESTS),
    (ExceededBudgetEvent, {"": EXCEEDED_BUDGET}),
    (BreakGlassEvent, {"": USED_BREAK_GLASS}),
)


def add_webhooks(result: Json, generator: Any, **_: Any) -> Json:
    """Add an entry for each event to a document (drf-spectacular's setting POSTPROCESSING_HOOKS)."""
    describe = ComponentSchema()
    describe.registry = generator.registry
    result["webhooks"] = {
        event.name: {"post": _delivery(describe, event, shape)}
        for shape, events in _EVENTS
        for event in events.values()
    }
    result["components"] = generator.registry.build(spectacular_settings.APPEND_COMPONENTS)
    return result


def _delivery(describe: ComponentSchema, event: Event, shape: Any) -> Json:
    headers = [
        {"name": name, "in": "header", "required": True, "description": meaning, "schema": {"type": "string", **limits}}
        for name, meaning, limits in _SIGNED
    ]
    return {
        "operationId": f"webhook.{event.name}",
        "summary": event.name,
        "description": event.meaning,
        "tags": ["webhooks"],
        "security": [],
        "parameters": headers,
        "requestBody": describe.json_body(shape),
        "responses": _EXPECTED,
    }
