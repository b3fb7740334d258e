"""How much an API key is used."""

from typing import Annotated
from uuid import UUID

from pydantic import Field
from typing_extensions import TypedDict

from audit import statistics
from audit.models import OperationRecord
from gateway.core.call import Call, Surface
from gateway.core.operation import operation
from gateway.core.shapes import Query
from keys.operations.api_keys import find_key


class ReadUsage(Query):
    """How far back to count."""

    days: Annotated[int, Field(ge=1, le=90, description="Days (UTC) to count, today the last of them.")] = 14


class DayOfUseRecord(TypedDict):
    """`operations` are all of the day (UTC), `failed` those of them that were refused or failed."""

    day: str
    operations: int
    failed: int


class KeyUsageRecord(TypedDict):
    """`operations` and `failed` are those of all the days."""

    operations: int
    failed: int
    days: list[DayOfUseRecord]


@operation(
    "api-keys.read-usage",
    "GET api-keys/{id}/usage",
    permission="keys.view_apikey",
    query=ReadUsage,
    output=KeyUsageRecord,
    surfaces=frozenset({Surface.REST}),
)
def read_key_usage(call: Call, *, id: UUID, query: ReadUsage) -> KeyUsageRecord:  # noqa: ARG001 - every operation takes its call
    """Read how many operations an API key was used for on each of the last days, as the operations log has them."""
    key = find_key(id)
    days = statistics.count_use(OperationRecord.objects.filter(credential_id=str(key.id)), query.days)
    return {
        "operations": sum(day.operations for day in days),
        "failed": sum(day.failed for day in days),
        "days": [{"day": day.day.isoformat(), "operations": day.operations, "failed": day.failed} for day in days],
    }
