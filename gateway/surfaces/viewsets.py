"""ViewSets made from the registry, one per resource and surface: an action for each operation, one for its batches.

Read `OperationViewSet` and `_single_action`: request in, pipeline, response out. Nothing here knows an operation by
name. `gateway.pipeline.batches` executes batches.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path
from pydantic import WithJsonSchema
from rest_framework.authentication import BaseAuthentication
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response
from typing_extensions import NotRequired, TypedDict

from approvals.budgets import BudgetJson
from approvals.ends import BadTime
from audit.redact import ChangeJson
from core.call import Call, RecordStream, StreamFormat, Surface
from core.errors import GatewayError, InvalidRequest
from core.operation import Effect, Operation, Risk, operations
from core.shapes import Id, Moment, NoQuery, Problem, list_parameters, load_query
from core.text.messages import message
from gateway import pipeline
from gateway.pipeline.batches import Item, batch_path, execute_batch, load_batch
from gateway.pipeline.fields import FIELDS
from gateway.pipeline.recording import record_refusal
from gateway.pipeline.schedules import END_HEADER
from gateway.surfaces.idempotency import answer_once
from gateway.surfaces.problems import error_of, problem_of
from gateway.surfaces.reading import (
    read_query,
    read_schedule,
    read_versions,
    refuse_headers,
    refuse_members,
    wants_async,
)
from gateway.surfaces.rendering import (
    CsvRenderer,
    JsonRenderer,
    NdjsonRenderer,
    record_shape,
    require_no_page,
    response_of,
    stream_response,
)
from gateway.surfaces.views import ProgramViewSet, StrictRequest
from keys.authentication import ProgramAuthentication, SessionAuthentication

_AUTHENTICATION: Mapping[Surface, type[BaseAuthentication]] = {
    Surface.API: ProgramAuthentication,
    Surface.REST: SessionAuthentication,
}
_JSON: list[BaseRenderer] = [JsonRenderer()]
_STREAMS = [*_JSON, NdjsonRenderer(), CsvRenderer()]

REFUSED = "gateway.refused"
"""The WSGI environment's key for the exception with which the straight way was refused what it read."""

Action = Callable[..., HttpResponseBase]


class OperationViewSet(ProgramViewSet):
    """The operations of one resource on one surface.

    The authentication class identifies the caller; `request.auth` is the `Call`. The pipeline checks permissions,
    limits and input. `operations` has the operation of each action, `batches` the names of the batch actions,
    `routes` the action of each method by path.
    """

    surface: ClassVar[Surface]
    operations: ClassVar[Mapping[str, Operation]]
    batches: ClassVar[frozenset[str]]
    routes: ClassVar[Mapping[str, Any]]

    def get_renderers(self) -> list[BaseRenderer]:
        operation = self.operations.get(self.action)
        return _JSON if operation is None or record_shape(operation.output) is None else _STREAMS

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        operation = self.operations.get(self.action)
        if operation is not None and operation.deprecation is not None:
            for name, value in operation.deprecation.headers.items():
                response[name] = value
        return response


def _single_action(operation: Operation) -> Action:
    """Make the action that runs an operation."""
    lists = lists_in_query(operation)

    def run(_: OperationViewSet, request: StrictRequest, **arguments: str) -> HttpResponseBase:
        call = _call_of(operation, request)

        def query() -> Mapping[str, str]:
            refuse_headers(request)
            if operation.body is None and operation.method != "GET":
                refuse_members(request)
            given = read_query(request, lists=lists)
            return given if call.stream_as is None else require_no_page(given)

        inputs = pipeline.Inputs(arguments=arguments, query=query, document=lambda: request.data)

        def respond(call: Call) -> HttpResponseBase:
            if (refusal := request.META.get(REFUSED)) is not None:
                pipeline.refuse(operation, call, arguments, refusal)
            answer = pipeline.run(operation, call, inputs)
            if isinstance(answer.body, RecordStream):
                return stream_response(operation, request, answer.body, answer.headers)
            return response_of(request, call, answer)

        return answer_once(operation, request, call, arguments, respond)

    return run


@cache
def lists_in_query(operation: Operation) -> frozenset[str]:
    """The parameters of an operation's query that may be repeated."""
    return frozenset(list_parameters(operation.query or NoQuery) | {FIELDS})


def _batch_action(operation: Operation) -> Action:
    """Make the action that runs a batch of an operation."""

    def run(_: OperationViewSet, request: StrictRequest) -> HttpResponseBase:
        pipeline.require_admission(operation, request.auth)
        return answer_once(operation, request, request.auth, {}, lambda call: batch_response(operation, call, request))

    return run


def _call_of(operation: Operation, request: StrictRequest) -> Call:
    """Return the request's call, with the preconditions and preferences in its headers."""
    headers = request.META
    facts: dict[str, Any] = {}
    if "HTTP_IF_MATCH" in headers:
        facts["if_match"] = read_versions(headers["HTTP_IF_MATCH"], strong=True)
    if operation.effect is Effect.READ and "HTTP_IF_NONE_MATCH" in headers:
        facts["if_none_match"] = read_versions(headers["HTTP_IF_NONE_MATCH"])
    if wants_async(headers.get("HTTP_PREFER")):
        facts["respond_async"] = True
    if (schedule := read_schedule(request)) is not None:
        facts["schedule"] = schedule
    if record_shape(operation.output) is not None:
        wanted = request.accepted_renderer
        facts["stream_as"] = None if isinstance(wanted, JsonRenderer) else StreamFormat(wanted.media_type)
        facts["takes_octets"] = facts["stream_as"] is not StreamFormat.CSV and FIELDS not in request.query_params
    return replace(request.auth, **facts) if facts else request.auth


def urls_of(surface: Surface, *, only: re.Pattern[str] | None = None) -> list[URLPattern]:
    """The URL patterns of a surface's operations and batches, or of those whose path matches `only`.

    Literal segments come before placeholders, so that `users/by-dn` is not taken for the user `by-dn`.
    """
    by_resource: dict[str, list[Operation]] = {}
    for operation in operations(surface):
        if only is None or only.match(operation.path):
            by_resource.setdefault(operation.resource, []).append(operation)
    found = []
    for resource, declared in by_resource.items():
        viewset = _viewset(resource, surface, declared)
        for route, actions in viewset.routes.items():
            found.append(path(route, viewset.as_view(actions), name=f"{surface.value}-{resource}"))
    return sorted(found, key=lambda url: ["<" in part for part in str(url.pattern).split("/")])


def _viewset(resource: str, surface: Surface, declared: list[Operation]) -> type[OperationViewSet]:
    """Make the ViewSet of a resource, with an action for each operation, and one for its batches."""
    actions: dict[str, Action] = {}
    operation_of_action: dict[str, Operation] = {}
    routes: dict[str, dict[str, str]] = {}
    for operation in declared:
        verb = operation.action.replace("-", "_")
        # With a prefix: Django would send every DELETE to a method called `delete`.
        declarations = [(f"run_{verb}", _single_action, operation.path, operation.method)]
        if operation.batchable:
            declarations.append((f"batch_{verb}", _batch_action, batch_path(operation), "POST"))
        for name, make, template, method in declarations:
            actions[name], operation_of_action[name] = make(operation), operation
            actions[name].__name__, actions[name].__doc__ = name, operation.function.__doc__
            routes.setdefault(re.sub(r"\{(\w+)\}", r"<\1>", template), {})[method.lower()] = name
    attributes = {
        "surface": surface,
        "operations": operation_of_action,
        "batches": frozenset(name for name in actions if name.startswith("batch_")),
        "routes": routes,
        "authentication_classes": [_AUTHENTICATION[surface]],
    }
    name = "".join(part.capitalize() for part in resource.split("-")) + "ViewSet"
    return type(name, (OperationViewSet,), attributes | actions)


AlwaysTrue = Annotated[Literal[True], WithJsonSchema({"type": "boolean", "description": "Always true."})]
"""Without the `const` of JSON Schema, of which openapi-generator makes Python, Java and C# that do not work."""


class BatchResult(TypedDict):
    """What came of one item: the status of the single call, null if it was skipped.

    Pointers in `problem` begin at the request's body: `#/items/3/replace/mail`. `generatedPassword` is there if the
    gateway made the password of a new account; null when an idempotency key is replayed.
    """

    index: int
    status: int | None
    id: Id | None
    problem: Problem | None
    changeRequestId: Id | None
    generatedPassword: NotRequired[str | None]
    scheduledEnd: NotRequired[Id]


class BatchPreview(BatchResult):
    """What an item would do: what the dry run of the single call says. One that fails has no more than its problem."""

    dryRun: NotRequired[AlwaysTrue]
    wouldQueue: NotRequired[bool]
    risk: NotRequired[Risk]
    changes: NotRequired[list[ChangeJson]]
    warnings: NotRequired[list[str]]
    budgets: NotRequired[list[BudgetJson]]
    applyAt: NotRequired[Moment]
    revertAt: NotRequired[Moment]


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

    dryRun: AlwaysTrue
    total: int
    succeeded: int
    failed: int
    queued: int
    skipped: int
    results: list[BatchPreview]


def batch_response(operation: Operation, call: Call, request: StrictRequest) -> Response:
    """Execute a batch of an admitted caller; raises GatewayError for the whole batch, after recording it."""
    try:
        refuse_headers(request)
        if read_schedule(request) is not None:
            raise BadTime(message("Each item of a batch names its own times: applyAt, revertAt, revertAfter."))
        if "If-Match" in request.headers:
            detail = "each item names its own version, as ifMatch"
            raise InvalidRequest.naming(detail, parameter="If-Match", subject="If-Match")
        batch = load_batch(request.data)
        query = read_query(request)
        call = pipeline.ChangeQuery.take_from(query, call)
        load_query(NoQuery, query)
        items = execute_batch(operation, call, batch.items, on_error=batch.on_error)
    except GatewayError as refusal:
        record_refusal(operation, call, {}, refusal.code)
        raise
    body = batch_answer(request, items)
    status = 200 if body["succeeded"] == body["total"] else 207
    return Response({"dryRun": True, **body} if call.dry_run else body, status=status)


def batch_answer(request: HttpRequest, items: Iterable[Item]) -> BatchAnswer:
    """The results of a batch's items, and how many ended how."""
    results: list[BatchResult] = [_result(request, item) for item in items]
    statuses = [result["status"] for result in results]
    return {
        "total": len(statuses),
        "succeeded": sum(status in (200, 201, 204) for status in statuses),
        "failed": sum(status is not None and status >= 400 for status in statuses),
        "queued": statuses.count(202),
        "skipped": statuses.count(None),
        "results": results,
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
        problem: Any = _with_item_pointers(problem_of(request, error_of(item.result)), item.index)
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
            if END_HEADER in item.result.headers:
                result["scheduledEnd"] = item.result.headers[END_HEADER]
            if "generatedPassword" in body:
                result["generatedPassword"] = body["generatedPassword"]
    return result


def _with_item_pointers(problem: dict[str, Any], index: int) -> dict[str, Any]:
    """Change the pointers of an item's problem so that they begin at the body of the batch."""
    for error in problem.get("errors", ()):
        within = error.get("pointer", f"#/{error.pop('parameter', '')}")
        error["pointer"] = f"#/items/{index}{within.removeprefix('#')}"
        problem["detail"] = problem["detail"].replace(f"{within}: ", f"{error['pointer']}: ")
    return problem
