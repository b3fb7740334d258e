"""ViewSets made from the registry, one per resource and surface, and the router that gives them their paths.

They declare what is where, for REST framework's router and for OpenAPI; what answers a request is a plain view with the
handlers of its methods (`views`). Nothing here knows an operation by name: request in, pipeline, response out.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from posixpath import commonpath
from typing import Any, ClassVar, Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import include, path
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.routers import SimpleRouter
from rest_framework.viewsets import ViewSet

from core.call import Call, Surface
from core.errors import GatewayError
from core.operation import Effect, Operation, operations
from core.shapes import NoQuery, list_parameters
from core.streams import RecordStream, StreamFormat
from core.text.json_text import json_of
from gateway import pipeline
from gateway.surfaces.idempotency import answer_once, key_of
from gateway.surfaces.openapi.on_demand import SchemaOnDemand
from gateway.surfaces.problems import problem_response
from gateway.surfaces.reading import (
    read_document,
    read_query,
    read_versions,
    refuse_headers,
    refuse_members,
    wants_async,
)
from gateway.surfaces.responses import Response
from gateway.surfaces.streams import record_shape, require_no_page, stream_response, wanted_format
from gateway.surfaces.views import METHODS, Handler, view_of

JSON: Final = "application/json"


class JsonOnly(BaseContentNegotiation):
    """Every answer is JSON whatever Accept says."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return None

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return renderers[0], renderers[0].media_type


class OperationViewSet(ViewSet):
    """The operations of one resource on one surface. `declared` maps an action's name to its operation."""

    declared: ClassVar[dict[str, Operation]] = {}
    handlers: ClassVar[dict[str, Handler]] = {}
    surface: ClassVar[Surface]
    place: ClassVar[str]
    http_method_names = [method.lower() for method in METHODS]
    schema = SchemaOnDemand("operations.OperationSchema")

    @classmethod
    def as_view(cls, actions: Any = None, **initkwargs: Any) -> Any:
        """The view of a path. REST framework's own is what it and OpenAPI read about it."""
        by_method = {method.upper(): name for method, name in (actions or {}).items()}
        view: Any = view_of(cls.surface, {method: cls.handlers[name] for method, name in by_method.items()})
        declaration: Any = super().as_view(actions=actions, **initkwargs)
        for name in ("cls", "initkwargs", "actions"):
            setattr(view, name, getattr(declaration, name))
        # What the rate limit needs to know before the view runs.
        view.operations = {method: cls.declared[name] for method, name in by_method.items()}
        return view


def viewset_of(
    name: str, surface: Surface, declared: dict[str, Operation], handlers: dict[str, Handler], **attributes: Any
) -> type[OperationViewSet]:
    """A ViewSet of operations. Its actions are there to be described: what answers them are the handlers."""
    actions = {action: _described_by(declared[action]) for action in handlers}
    shown = {"declared": declared, "handlers": handlers, "surface": surface, **actions, **attributes}
    return type(name, (OperationViewSet,), shown)


def _described_by(operation: Operation) -> Callable[[OperationViewSet, Request], None]:
    def action(_viewset: OperationViewSet, _request: Request) -> None:
        raise NotImplementedError

    action.__name__ = _action_of(operation)
    action.__doc__ = operation.function.__doc__
    return action


def _action_of(operation: Operation) -> str:
    """The name of an operation's method on its ViewSet. Never just its verb: `delete` would answer every DELETE."""
    return "run_" + operation.action.replace("-", "_")


def _handler(operation: Operation) -> Handler:
    is_read = operation.effect is Effect.READ
    is_list = record_shape(operation.output) is not None

    def handle(request: HttpRequest, call: Call, **arguments: str) -> HttpResponseBase:
        headers = request.META
        if_match = read_versions(headers.get("HTTP_IF_MATCH"), strong=True)
        if_none_match = read_versions(headers.get("HTTP_IF_NONE_MATCH")) if is_read else None
        respond_async = wants_async(headers.get("HTTP_PREFER"))
        stream_as = wanted_format(operation, headers.get("HTTP_ACCEPT")) if is_list else None
        if is_list or if_match is not None or if_none_match is not None or respond_async:
            call = replace(
                call,
                if_match=if_match,
                if_none_match=if_none_match,
                respond_async=respond_async,
                stream_as=stream_as,
                takes_octets=is_list and stream_as is not StreamFormat.CSV,
            )

        def query() -> Mapping[str, str]:
            refuse_headers(request)
            if operation.body is None and operation.method != "GET":
                refuse_members(request)
            given = read_query(request, lists=lists)
            return given if call.stream_as is None else require_no_page(given)

        inputs = pipeline.Inputs(arguments=arguments, query=query, document=lambda: read_document(request))

        def run(call: Call) -> pipeline.Answer:
            return pipeline.run(operation, call, inputs)

        if "HTTP_IDEMPOTENCY_KEY" in headers:  # permission is looked at before the key
            pipeline.require_admission(operation, call, inputs)
        key = key_of(request)
        if key is None:
            answer = run(call)
            if isinstance(answer.body, RecordStream):
                return stream_response(operation, request, answer.body, answer.headers)
            return render(operation, request, answer)

        def review(status: int, body: Any) -> HttpResponse:
            seen = pipeline.review(operation, call, arguments, body)
            return render(operation, request, pipeline.Answer(status, seen))

        return answer_once(
            request,
            call,
            key,
            respond=lambda call: rendered(request, lambda: render(operation, request, run(call))),
            review=lambda status, body: rendered(request, lambda: review(status, body)),
            note=lambda body: pipeline.record_replayed(operation, call, arguments, body),
        )

    lists = list_parameters(operation.query or NoQuery)
    return handle


def rendered(request: HttpRequest, respond: Callable[[], HttpResponse]) -> HttpResponse:
    """The response, a refusal rendered too: a retry under the same idempotency key gets the same refusal."""
    try:
        return respond()
    except GatewayError as refusal:
        return problem_response(request, refusal)


def render(operation: Operation, request: HttpRequest, answer: pipeline.Answer) -> HttpResponse:
    """The HTTP form of an answer: JSON, the entity tag of a single object, and where a created thing is found."""
    headers = dict(answer.headers)
    body = answer.body
    if isinstance(body, dict) and "version" in body:
        headers["ETag"] = f'"{body["version"]}"'
        wanted = read_versions(request.META.get("HTTP_IF_NONE_MATCH"))
        if operation.effect is Effect.READ and wanted and (body["version"] in wanted or "*" in wanted):
            return Response(None, JSON, status=304, headers=headers)
    if answer.status == 201 and isinstance(body, dict) and "id" in body:
        headers.setdefault("Location", f"{request.path}/{body['id']}")
    return Response(None if body is None else json_of(body), JSON, status=answer.status, headers=headers)


def _viewsets(surface: Surface, only: re.Pattern[str] | None) -> dict[str, type[OperationViewSet]]:
    by_resource: dict[str, dict[str, Operation]] = {}
    for operation in operations(surface):
        if only is None or only.match(operation.path):
            by_resource.setdefault(operation.resource, {})[_action_of(operation)] = operation
    return {
        resource: viewset_of(
            "".join(part.capitalize() for part in resource.split("-")) + "ViewSet",
            surface,
            declared,
            {action: _handler(operation) for action, operation in declared.items()},
            place=_place_of(declared.values()),
        )
        for resource, declared in by_resource.items()
    }


def _placeholders(item: tuple[str, Any]) -> list[bool]:
    return [part.startswith("{") for part in item[0].split("/")]


class OperationRouter(SimpleRouter):
    """One URL per path, its methods mapped to the operations declared for it.

    Each resource's are below what they have in common, so that a request is compared with a few of them, not with all.
    """

    def get_urls(self) -> list[Any]:
        return [path(place, include(_urls_of(viewset, basename))) for place, viewset, basename in self.registry]


def _urls_of(viewset: Any, basename: str) -> list[Any]:
    by_path: dict[str, dict[str, str]] = {}
    for action, operation in viewset.declared.items():
        by_path.setdefault(operation.path, {})[operation.method.lower()] = action
    # A literal segment goes before a placeholder: `users/by-dn` is not the user called by-dn.
    return [
        path(
            re.sub(r"\{(\w+)\}", r"<\1>", route.removeprefix(viewset.place)),
            viewset.as_view(mapping, basename=basename, detail="{" in route),
            name=f"{basename}-{next(iter(mapping.values()))}",
        )
        for route, mapping in sorted(by_path.items(), key=_placeholders)
    ]


def router_for(surface: Surface, *, only: re.Pattern[str] | None = None) -> OperationRouter:
    """The router of a surface, of all its operations or of those whose path matches."""
    router = OperationRouter(trailing_slash=False)
    for resource, viewset in _viewsets(surface, only).items():
        router.register(viewset.place, viewset, basename=f"{surface.value}-{resource}")
    return router


def _place_of(operations_of_resource: Iterable[Operation]) -> str:
    """The literal segments that all paths of a resource begin with."""
    return commonpath([item.path.partition("{")[0].rstrip("/") for item in operations_of_resource])
