"""The API keys that want looking at."""

from django.db.models import QuerySet
from typing_extensions import TypedDict

from gateway.core.call import Call, Surface
from gateway.core.operation import operation
from gateway.core.shapes import Id, Moment, render_timestamp
from keys.api_keys.expiring import find_expiring, find_unused
from keys.models import ApiKey

SHOWN = 20


class DueKeyRecord(TypedDict):
    id: Id
    name: str
    owner: str
    createdAt: Moment | None
    expiresAt: Moment | None
    lastUsedAt: Moment | None


class DueKeysRecord(TypedDict):
    """`total` counts all of them, `items` are the most urgent 20."""

    total: int
    items: list[DueKeyRecord]


class KeysToLookAtRecord(TypedDict):
    expiring: DueKeysRecord
    unused: DueKeysRecord


@operation(
    "api-keys.list-due",
    "GET api-keys/due",
    permission="keys.view_apikey",
    output=KeysToLookAtRecord,
    surfaces=frozenset({Surface.REST}),
)
def list_due_keys(call: Call) -> KeysToLookAtRecord:  # noqa: ARG001 - every operation takes its call
    """List the valid API keys that expire within 30 days, and those that have not been used for 90."""
    return {"expiring": _record(find_expiring()), "unused": _record(find_unused())}


def _record(keys: QuerySet[ApiKey]) -> DueKeysRecord:
    items: list[DueKeyRecord] = [
        {
            "id": str(key.id),
            "name": key.name,
            "owner": key.owner.username,
            "createdAt": render_timestamp(key.created_at),
            "expiresAt": render_timestamp(key.expires_at),
            "lastUsedAt": render_timestamp(key.last_used_at),
        }
        for key in keys[:SHOWN]
    ]
    return {"total": len(items) if len(items) < SHOWN else keys.count(), "items": items}
