"""Notes on each request who made it and from where, for logs and limits. Nothing is authorized by these notes."""

from typing import Any

from django.http import HttpRequest

from core.call import Call

IS_IDENTIFIED = "gateway.is_identified"
"""The key in `request.META` that is set once the caller is known."""


def note_caller(request: HttpRequest, call: Call) -> Call:
    """Note a call on its request, and return it."""
    request.caller = call  # type: ignore[attr-defined]
    request.META[IS_IDENTIFIED] = True
    return call


def find_caller(request: HttpRequest) -> Call | None:
    """The call noted on the request, if its caller was identified."""
    found: Call | None = getattr(request, "caller", None)
    return found


def client_address(request: HttpRequest | Call | None) -> str:
    """The IP address that a request, or its call, came from; empty if unknown."""
    return getattr(request, "client_address", None) or ""


def origin_of(request: HttpRequest | Call | None) -> dict[str, Any]:
    """The address and the id of a request, for the security log."""
    return {"client_address": client_address(request) or None, "request_id": getattr(request, "request_id", "")}
