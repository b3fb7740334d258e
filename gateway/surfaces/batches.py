"""The request and the answer of a batch. What a batch does is in `gateway.pipeline.batches`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from django.http import HttpRequest
from rest_framework.response import Response
from typing_extensions import NotRequired, TypedDict

from audit.redact import ChangeJson
from core.call import Call
from core.errors import GatewayError, InvalidRequest
from core.operation import Operation, Risk
from core.shapes import Id, Problem, load_query
from gateway import pipeline
from gateway.pipeline.batch_shapes import load_batch
from gateway.pipeline.batches import Item, execute_batch
from gateway.pipeline.recording import record_refusal
from gateway.surfaces.problems import error_of, problem_of
from gateway.surfaces.reading import read_query, refuse_headers
from gateway.surfaces.views import StrictRequest


class BatchResult(TypedDict):
    """What came of one item: the status of the single call, null if it was skipped.

    Pointers in `problem` begin at the request's body: `#/items/3/replace/mail`.
    """

    index: int
    status: int | None
    id: Id | None
    problem: Problem | None
    changeRequestId: Id | None


class BatchPreview(BatchResult):
    """What an item would do: what the dry run of the single call says. One that fails has no more than its problem."""

    dryRun: NotRequired[Literal[True]]
    wouldQueue: NotRequired[bool]
    risk: NotRequired[Risk]
    changes: NotRequired[list[ChangeJson]]
    warnings: NotRequired[list[str]]


class BatchAnswer(TypedDict):
    """What came of each item, in their order, and how many came to what."""

    total: int
    succeeded: int
    failed: int
    queued: int
    skipped: int
    results: list[BatchResult]


class BatchDryRun(TypedDict):
    """What each item would do, in their order. Nothing was changed and nothing queued."""

    dryRun: Literal[True]
    total: int
    succeeded: int
    failed: int
    queued: int
    skipped: int
    results: list[BatchPreview]


def batch_response(operation: Operation, call: Call, request: StrictRequest) -> Response:
    """Carry out a batch that its caller was admitted to; raises GatewayError for the whole, after recording it."""
    try:
        refuse_headers(request)
        _refuse_if_match(request)
        batch = load_batch(request.data)
        dry_run = load_query(pipeline.ChangeQuery, read_query(request)).dry_run
        items = execute_batch(operation, replace(call, dry_run=dry_run), batch.items, on_error=batch.on_error)
    except GatewayError as refusal:
        record_refusal(operation, call, {}, refusal.code)
        raise
    body = _counted([_result(request, item) for item in items])
    status = 200 if body["succeeded"] == body["total"] else 207
    return Response({"dryRun": True, **body} if dry_run else body, status=status)


def _refuse_if_match(request: HttpRequest) -> None:
    if "If-Match" in request.headers:
        detail = "each item names its own version, as ifMatch"
        raise InvalidRequest.naming(detail, parameter="If-Match", subject="If-Match")


def _counted(results: Sequence[BatchResult | BatchPreview]) -> BatchAnswer:
    statuses = [result["status"] for result in results]
    return {
        "total": len(statuses),
        "succeeded": sum(status in (200, 201, 204) for status in statuses),
        "failed": sum(status is not None and status >= 400 for status in statuses),
        "queued": statuses.count(202),
        "skipped": statuses.count(None),
        "results": list(results),
    }


def _result(request: HttpRequest, item: Item) -> BatchResult | BatchPreview:
    result: BatchResult = {
        "index": item.index,
        "status": None,
        "id": str(item.id) if item.id else None,
        "problem": None,
        "changeRequestId": None,
    }
    if isinstance(item.result, Exception):
        problem: Any = _located(problem_of(request, error_of(item.result)), item.index)
        result["problem"], result["status"] = problem, problem["status"]
    elif item.result is not None:
        body: Any = item.result.body or {}
        result["status"] = item.result.status
        if item.result.status == 202:
            result["changeRequestId"] = body["changeRequest"]["id"]
        elif "dryRun" in body:
            return {**result, **body}
        else:
            result["id"] = body.get("id", result["id"])
    return result


def _located(problem: dict[str, Any], index: int) -> dict[str, Any]:
    """The problem of an item in terms of the whole body, whose members it names."""
    for error in problem.get("errors", ()):
        within = error.get("pointer", f"#/{error.pop('parameter', '')}")
        error["pointer"] = f"#/items/{index}{within.removeprefix('#')}"
        problem["detail"] = problem["detail"].replace(f"{within}: ", f"{error['pointer']}: ")
    return problem
