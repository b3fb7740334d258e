"""Who made a request, noted on it for whoever tells of the request afterwards. Nothing is decided by it."""

from typing import Final

from django.http import HttpRequest

from core.call import Call

IS_IDENTIFIED: Final = "gateway.is_identified"
"""The variable of the environment that a request has once its caller is known."""


def note_caller(request: HttpRequest, call: Call) -> Call:
    """The call, noted on its request."""
    request.caller = call  # type: ignore[attr-defined]
    request.META[IS_IDENTIFIED] = True
    return call


def find_caller(request: HttpRequest) -> Call | None:
    """The call that was noted last; None where nobody was identified."""
    found: Call | None = getattr(request, "caller", None)
    return found
