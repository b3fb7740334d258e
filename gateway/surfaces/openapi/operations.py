"""How the operation that an action of a ViewSet runs is described."""

from inspect import cleandoc
from typing import Any

from approvals.queue import QueuedAnswer
from audit.model_changes.descriptions import find_audited_model
from core.call import Surface
from core.operation import SIGNED_IN, Effect, Operation
from directory.runs.requests import RunResult
from directory.shapes.record import ChangedObject, DirectoryObject
from gateway.surfaces.openapi.components import Described
from gateway.surfaces.openapi.documents import security_of
from gateway.surfaces.openapi.parameters import answers_with_version, has_version, parameters_of
from gateway.surfaces.openapi.shapes import DryRun
from gateway.surfaces.streams import record_shape


def describe_operation(schema: Described, operation: Operation, surface: Surface) -> dict[str, Any]:
    """The description of an operation; `schema` takes the components that it refers to."""
    query = [] if operation.query is None else schema.query_parameters(operation.query)
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": _description(operation),
        "tags": [operation.resource],
        "parameters": [*parameters_of(operation), *query],
        "security": security_of(surface),
        "responses": _responses(schema, operation),
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": any(member.is_required() for member in operation.body.model_fields.values()),
            "content": {"application/json": {"schema": schema.refer(operation.body)}},
        }
    return described


def _responses(schema: Described, operation: Operation) -> dict[str, Any]:
    success = str(operation.status)
    headers = [
        *(["ETag"] if answers_with_version(operation) else []),
        *(["Location"] if success == "201" else []),
        *(["Idempotency-Replayed"] if operation.method != "GET" else []),
        *(["Gateway-Replication"] if may_be_behind(operation) else []),
    ]
    if operation.output is None:
        responses: dict[str, Any] = {success: schema.empty_response("Done.", *headers)}
    else:
        responses = {success: schema.json_response("Done.", _answer_of(operation), *headers)}
        _describe_stream(schema, operation, responses[success])
    if operation.effect is Effect.CHANGE:
        _describe_change(schema, operation, responses)
    if operation.effect is Effect.ADMINISTER and find_audited_model(operation.resource).gives_access:
        meaning = "More access waits for a second person (`Approvals:AccessNeedsTwo`)."
        responses["202"] = schema.json_response(meaning, QueuedAnswer, "Location", "Idempotency-Replayed")
    responses |= schema.problems("400", "401", "403", "404", "406", "409", "411", "413", "414", "415", "429")
    responses |= schema.problems("500", "503")
    if operation.method != "GET":
        responses |= schema.problems("422")
    if operation.on_directory:
        responses |= schema.problems("502")
    if has_version(operation):
        known = ["ETag", *(["Gateway-Replication"] if may_be_behind(operation) else [])]
        responses["304"] = schema.empty_response("The version is one of those in If-None-Match.", *known)
    if operation.effect is not Effect.READ:
        responses |= schema.problems("412")
    if operation.effect is Effect.CHANGE:
        responses |= schema.problems("504")
    return dict(sorted(responses.items()))


def _describe_stream(schema: Described, operation: Operation, done: dict[str, Any]) -> None:
    shape = record_shape(operation.output)
    if shape is None:
        return
    done["description"] = (
        "A page; or the whole result, one record a line, with `Accept: application/x-ndjson` or `text/csv`, which"
        " take no `pageSize` and no `cursor`. A last line that is not finished tells what broke a stream off."
    )
    done["content"] |= {
        "application/x-ndjson": {"schema": schema.refer(shape)},
        "text/csv": {"schema": {"type": "string"}},
    }


def _describe_change(schema: Described, operation: Operation, responses: dict[str, Any]) -> None:
    if "200" not in responses:
        responses["200"] = schema.json_response("With `dryRun`.", DryRun, "Idempotency-Replayed")
    else:
        body = responses["200"]["content"]["application/json"]
        body["schema"] = schema.refer_to_one_of(DryRun, _answer_of(operation))
    held = ("Location", "Idempotency-Replayed")
    if operation.output is RunResult:
        responses["207"] = schema.json_response("Some accounts failed.", RunResult, "Idempotency-Replayed")
        meaning = "Waits for approval, or still runs."
        responses["202"] = schema.json_response(meaning, RunResult, *held, or_else=QueuedAnswer)
    else:
        responses["202"] = schema.json_response("Waits for approval.", QueuedAnswer, *held)


def _answer_of(operation: Operation) -> Any:
    """The shape of an answer: of a record those get less who may make a change and not read objects."""
    changes_record = operation.effect is Effect.CHANGE and operation.output is DirectoryObject
    return ChangedObject if changes_record else operation.output


def may_be_behind(operation: Operation) -> bool:
    """Whether an answer may lack what another domain controller has."""
    return operation.effect is Effect.READ and operation.on_directory


def _description(operation: Operation) -> str:
    text = cleandoc(operation.function.__doc__ or "")
    if operation.permission == {SIGNED_IN}:
        return text + "\n\nPermission: any valid credential."
    joined = " or ".join(f"`{name}`" for name in sorted(operation.permission))
    return f"{text}\n\nPermission: {joined}."
