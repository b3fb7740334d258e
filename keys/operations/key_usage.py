"""How much an API key is used."""

from typing import Annotated
from uuid import UUID

from pydantic import Field
from typing_extensions import TypedDict

from audit import statistics
from audit.models import OperationRecord
from audit.overview_shapes import DayJson, day_as_json
from gateway.core.call import Call, Surface
from gateway.core.operation import operation
from gateway.core.shapes import WHOLE_NUMBER, Query
from keys.operations.api_keys import find_key


class ReadUsage(Query):
    """How far back to count."""

    days: Annotated[
        int, Field(ge=1, le=90, description="Days (UTC) to count, today the last of them."), WHOLE_NUMBER
    ] = 14


class KeyUsageRecord(TypedDict):
    days: list[DayJson]


@operation(
    "api-keys.read-usage",
    "GET api-keys/{id}/usage",
    permission="keys.view_apikey",
    query=ReadUsage,
    output=KeyUsageRecord,
    surfaces=frozenset({Surface.REST}),
)
def read_key_usage(call: Call, *, id: UUID, query: ReadUsage) -> KeyUsageRecord:  # noqa: ARG001 - every operation takes its call
    """Read how many operations an API key was used for on each of the last days, and how they ended."""
    records = OperationRecord.objects.filter(credential_id=str(find_key(id).id))
    return {"days": [day_as_json(day) for day in statistics.count_by_day(records, query.days)]}
