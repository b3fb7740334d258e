"""ViewSets made from the registry, one per resource and surface: an action for each operation, and one for its batches.

Read `OperationViewSet` and `_single`: request in, pipeline, response out. Nothing here knows an operation by name.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPMethod
from typing import Any, ClassVar

from django.http import HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.decorators import action
from rest_framework.renderers import BaseRenderer
from rest_framework.routers import SimpleRouter

from core.call import Call, Surface
from core.operation import Effect, Operation, operations
from core.shapes import NoQuery, list_parameters
from core.streams import RecordStream, StreamFormat
from gateway import pipeline
from gateway.pipeline.batch_shapes import path_of
from gateway.surfaces.batches import batch_response
from gateway.surfaces.idempotency import answer_once
from gateway.surfaces.reading import read_query, read_versions, refuse_headers, refuse_members, wants_async
from gateway.surfaces.responses import JsonRenderer, response_of
from gateway.surfaces.streams import CsvRenderer, NdjsonRenderer, record_shape, require_no_page, stream_response
from gateway.surfaces.views import ProgramViewSet, StrictRequest
from keys.authentication import ProgramAuthentication, SessionAuthentication

_AUTHENTICATION: Mapping[Surface, type[BaseAuthentication]] = {
    Surface.API: ProgramAuthentication,
    Surface.REST: SessionAuthentication,
}
_JSON: list[BaseRenderer] = [JsonRenderer()]
_STREAMS = [*_JSON, NdjsonRenderer(), CsvRenderer()]

Action = Callable[..., HttpResponseBase]


class OperationViewSet(ProgramViewSet):
    """The operations of one resource on one surface.

    `request.auth` is the `Call` of whoever the authentication class has identified. Permissions, limits and validation
    are the pipeline's. `operations` has the operation of each action, `batches` names the actions that are batches.
    """

    surface: ClassVar[Surface]
    operations: ClassVar[Mapping[str, Operation]]
    batches: ClassVar[frozenset[str]]

    def get_renderers(self) -> list[BaseRenderer]:
        operation = self.operations.get(self.action)
        return _JSON if operation is None or record_shape(operation.output) is None else _STREAMS


def _single(operation: Operation) -> Action:
    """The action that runs an operation."""
    lists = list_parameters(operation.query or NoQuery)

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
            answer = pipeline.run(operation, call, inputs)
            if isinstance(answer.body, RecordStream):
                return stream_response(operation, request, answer.body, answer.headers)
            return response_of(request, call, answer)

        return answer_once(operation, request, call, arguments, respond)

    return run


def _batch(operation: Operation) -> Action:
    """The action that runs an operation many times."""

    def run(_: OperationViewSet, request: StrictRequest) -> HttpResponseBase:
        pipeline.require_admission(operation, request.auth)
        return answer_once(operation, request, request.auth, {}, lambda call: batch_response(operation, call, request))

    return run


def _call_of(operation: Operation, request: StrictRequest) -> Call:
    """The call with what the request's headers say of it."""
    headers = request.META
    facts: dict[str, Any] = {}
    if "HTTP_IF_MATCH" in headers:
        facts["if_match"] = read_versions(headers["HTTP_IF_MATCH"], strong=True)
    if operation.effect is Effect.READ and "HTTP_IF_NONE_MATCH" in headers:
        facts["if_none_match"] = read_versions(headers["HTTP_IF_NONE_MATCH"])
    if wants_async(headers.get("HTTP_PREFER")):
        facts["respond_async"] = True
    if record_shape(operation.output) is not None:
        wanted = request.accepted_renderer
        facts["stream_as"] = None if isinstance(wanted, JsonRenderer) else StreamFormat(wanted.media_type)
        facts["takes_octets"] = facts["stream_as"] is not StreamFormat.CSV
    return replace(request.auth, **facts) if facts else request.auth


def router_for(surface: Surface, *, only: re.Pattern[str] | None = None) -> SimpleRouter:
    """The router of a surface, of all its operations or of those whose path matches."""
    by_resource: dict[str, list[Operation]] = {}
    for operation in operations(surface):
        if only is None or only.match(operation.path):
            by_resource.setdefault(operation.resource, []).append(operation)
    router = _Router(trailing_slash=False, use_regex_path=False)
    for resource, declared in by_resource.items():
        router.register("", _viewset(resource, surface, declared), basename=f"{surface.value}-{resource}")
    return router


def _viewset(resource: str, surface: Surface, declared: list[Operation]) -> type[OperationViewSet]:
    # Never just the verb of an operation: a method `delete` would answer every DELETE.
    runs = {f"run_{_name(operation)}": operation for operation in declared}
    batches = {f"batch_{_name(operation)}": operation for operation in declared if operation.batchable}
    actions = {name: _single(operation) for name, operation in runs.items()}
    actions |= {name: _batch(operation) for name, operation in batches.items()}
    by_path: dict[str, Any] = {}
    for name, run in actions.items():
        operation = runs.get(name) or batches[name]
        run.__name__, run.__doc__ = name, operation.function.__doc__
        path, method = (path_of(operation), "POST") if name in batches else (operation.path, operation.method)
        if path in by_path:
            by_path[path].mapping[method.lower()] = name
        else:
            route = re.sub(r"\{(\w+)\}", r"<\1>", path)
            by_path[path] = action(methods=[HTTPMethod(method)], detail=False, url_path=route)(run)
    attributes = {
        "surface": surface,
        "operations": {**runs, **batches},
        "batches": frozenset(batches),
        "authentication_classes": [_AUTHENTICATION[surface]],
    }
    name = "".join(part.capitalize() for part in resource.split("-")) + "ViewSet"
    return type(name, (OperationViewSet,), attributes | actions)


def _name(operation: Operation) -> str:
    return operation.action.replace("-", "_")


class _Router(SimpleRouter):
    """REST framework's router. A literal segment goes before a placeholder: `users/by-dn` is not the user by-dn."""

    def get_urls(self) -> list[Any]:
        return sorted(super().get_urls(), key=lambda url: ["<" in part for part in str(url.pattern).split("/")])
