"""Who made a request, noted on it for whoever tells of the request afterwards. Nothing is decided by it."""

from django.http import HttpRequest

from gateway.core.call import Call


def note_caller(request: HttpRequest, call: Call) -> Call:
    """The call, noted on its request."""
    request.caller = call  # type: ignore[attr-defined]
    return call


def find_caller(request: HttpRequest) -> Call | None:
    """The call that was noted last; None where nobody was identified."""
    found: Call | None = getattr(request, "caller", None)
    return found
