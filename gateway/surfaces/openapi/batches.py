"""How the batches of an operation are described."""

from typing import Any

from core.call import Surface
from core.operation import Operation
from gateway.pipeline.batch_shapes import batch_shape
from gateway.surfaces.batches import BatchAnswer, BatchDryRun
from gateway.surfaces.openapi.components import Described
from gateway.surfaces.openapi.operations import describe_operation

_PARAMETERS = ("dryRun", "Idempotency-Key", "X-Change-Reason", "X-Client-Id")


def describe_batch(schema: Described, operation: Operation, surface: Surface) -> dict[str, Any]:
    """The description of an operation's batches: what is the same for the single call is said by its description."""
    described = describe_operation(schema, operation, surface)
    answer = schema.json_response("Every item succeeded.", BatchAnswer, "Idempotency-Replayed", or_else=BatchDryRun)
    of_single_calls = ("201", "202", "204", "404", "412", "502", "504")
    return {
        **described,
        "operationId": f"{operation.resource}.batch-{operation.action}",
        "summary": f"Many in one request: {operation.summary[:1].lower()}{operation.summary[1:]}",
        "description": "Each item is a change of its own, with its own checks, hold, log record and result.\n\n"
        + described["description"],
        "parameters": [item for item in described["parameters"] if item["name"] in _PARAMETERS],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": schema.refer(batch_shape(operation))}},
        },
        "responses": {
            **{key: value for key, value in described["responses"].items() if key not in of_single_calls},
            "200": answer,
            "207": answer | {"description": "Some items failed, wait for approval, or were skipped."},
        },
    }
