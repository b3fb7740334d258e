"""Resolves paths to views and operations, once for all paths that differ only in identifiers."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve

from core.operation import Operation

PROGRAM_PATHS = ("/api/", "/ad/", "/mcp/", "/oauth/", "/.well-known/", "/health/", "/metrics/", "/calendar.ics/")
"""Below these paths session cookies are not even read."""

_GUID = re.compile(r"(?<=/)[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![^/])")
"""A whole segment of a path."""
_ANY_ID = str(UUID(int=0))
"""Stands for any identifier."""


def is_for_programs(path: str) -> bool:
    return f"{path}/".startswith(PROGRAM_PATHS)


class Route(NamedTuple):
    """The view of a path with its arguments, and its operations by HTTP method, if it has any."""

    view: Callable[..., HttpResponseBase]
    name: str
    operations: Mapping[str, Operation]
    arguments: Mapping[str, Any]

    def operation(self, method: str | None) -> Operation | None:
        return self.operations.get("GET" if method == "HEAD" else method or "")


def route_of(request: HttpRequest) -> Route | None:
    """The route of a request's path, None for an unknown one. It is resolved once per request."""
    cache: Any = request
    try:
        route: Route | None = cache.gateway_route
    except AttributeError:
        route = cache.gateway_route = find_route(request.path_info)
    return route


def metric_label(request: HttpRequest) -> str:
    """The name under which a request is counted: its operation's, else its view's."""
    route = route_of(request)
    if route is None:
        return "none"
    operation = route.operation(request.method)
    return operation.name if operation else route.name


def find_route(path: str) -> Route | None:
    """Resolve a path, with all its identifiers replaced by one, so that they share an entry of the cache."""
    route = _resolve(_GUID.sub(_ANY_ID, path))
    if route is None or not route.arguments:
        return route
    view, name, operations, arguments = route
    found = iter(_GUID.findall(path))
    arguments = {each: next(found) if value == _ANY_ID else value for each, value in arguments.items()}
    return Route(view, name, operations, arguments)


@lru_cache(maxsize=4096)
def _resolve(path: str) -> Route | None:
    try:
        match = resolve(path)
    except Resolver404:
        return None
    return Route(
        view=match.func,
        name=match.view_name or "other",
        operations=_operations_of(match.func),
        arguments=match.kwargs,
    )


def _operations_of(view: Any) -> Mapping[str, Operation]:
    """The operations of a view by method: those of an OperationViewSet's actions, or those that a page declares."""
    if not hasattr(view, "actions"):
        return getattr(view, "operations", {})
    operations_by_action, actions = getattr(view.cls, "operations", {}), view.actions
    return {
        method.upper(): operations_by_action[action]
        for method, action in actions.items()
        if action in operations_by_action
    }
