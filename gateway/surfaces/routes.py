"""Which view and which operations are at an address, found once for all addresses that differ in identifiers alone."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve

from core.operation import Operation

FOR_PROGRAMS = ("/api/", "/ad/", "/mcp/", "/oauth/", "/.well-known/", "/health/", "/metrics/")
"""A session cookie is no credential below these: there it is not even looked at."""

_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_ANY = str(UUID(int=0))
"""Stands for any identifier."""


def is_for_programs(path: str) -> bool:
    return f"{path}/".startswith(FOR_PROGRAMS)


@dataclass(frozen=True, slots=True)
class Route:
    """What is at an address. `operations` are those of an operation's view, by method; none for any other view."""

    view: Callable[..., HttpResponseBase]
    name: str
    operations: Mapping[str, Operation] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def operation(self, method: str | None) -> Operation | None:
        return self.operations.get("GET" if method == "HEAD" else method or "")


def route_of(request: HttpRequest) -> Route | None:
    """What is at the request's address, None for an unknown one. It is looked for once in a request."""
    known: Any = request
    try:
        found: Route | None = known.gateway_route
    except AttributeError:
        found = known.gateway_route = find_route(request.path_info)
    return found


def metric_label(request: HttpRequest) -> str:
    """The name under which a request is counted: of its operation, else of its view."""
    route = route_of(request)
    if route is None:
        return "none"
    operation = route.operation(request.method)
    return operation.name if operation else route.name


def find_route(path: str) -> Route | None:
    """No route tells one identifier from another, so all of them share an entry of the cache."""
    parts = path.split("/")
    identifiers = iter([part for part in parts if _GUID.fullmatch(part)])
    route = _resolve("/".join(_ANY if _GUID.fullmatch(part) else part for part in parts), settings.ROOT_URLCONF)
    if route is None or not route.arguments:
        return route
    arguments = {name: next(identifiers) if value == _ANY else value for name, value in route.arguments.items()}
    return replace(route, arguments=arguments)


@lru_cache(maxsize=4096)
def _resolve(path: str, addresses: str) -> Route | None:
    try:
        match = resolve(path, addresses)
    except Resolver404:
        return None
    return Route(
        view=match.func,
        name=match.view_name or "other",
        operations=_operations_of(match.func),
        arguments=match.kwargs,
    )


def _operations_of(view: Any) -> Mapping[str, Operation]:
    """The operations of a view, by method: of an OperationViewSet's actions, or what a page says that it stands for."""
    if not hasattr(view, "actions"):
        return getattr(view, "operations", {})
    of_actions, actions = getattr(view.cls, "operations", {}), view.actions
    return {method.upper(): of_actions[action] for method, action in actions.items() if action in of_actions}
