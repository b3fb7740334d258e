"""What a person sees when the limit of their address is reached: a page that waits, goes on by itself, loses nothing.

Whoever shares an address with others, behind one proxy, reaches the limit without having done anything wrong.
"""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from core.errors import RateLimited
from gateway.middleware.browser import CONTENT_SECURITY_POLICY
from gateway.surfaces.languages import in_language_of

PAGES: Final = "/console/"
_MOST_KEPT: Final = 65_536
"""Octets of a form that are sent back to be sent again."""
_FORM: Final = "application/x-www-form-urlencoded"
_SECRET: Final = ("password", "code", "secret")
"""In the name of a field that is not to be written into a page."""


def is_page(request: HttpRequest) -> bool:
    return request.path.startswith(PAGES)


def page_that_waits(request: HttpRequest, refusal: RateLimited, *, seconds: int) -> HttpResponse:
    """A page with a countdown that asks again when it is over; of a form that was sent it keeps the fields.

    A part of a page that htmx asks for becomes a message with the countdown: its page is still there.
    """
    is_part = "HX-Request" in request.headers
    fields = _fields_of(request) if request.method == "POST" and not is_part else None
    context = {
        "seconds": seconds,
        "address": request.get_full_path(),
        "is_form": request.method == "POST",
        "fields": fields,
        "request_id": getattr(request, "request_id", ""),
        "problem": refusal,
    }
    template = "console/_waits.html" if is_part else "console/waits.html"
    with in_language_of(request):
        content = render_to_string(template, context)
    response = HttpResponse(content, status=refusal.status, headers=refusal.headers)
    # This stands before the middleware that gives other pages theirs.
    response["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response["Cache-Control"] = "no-store"
    return response


def _fields_of(request: HttpRequest) -> list[tuple[str, str]] | None:
    """The fields of a form as they were sent; None where they cannot be kept, for the browser has them still.

    Nothing has limited the body yet, so only a small one of a known length is read.
    """
    length = request.META.get("CONTENT_LENGTH") or ""
    if request.content_type != _FORM or not length.isdecimal() or int(length) > _MOST_KEPT:
        return None
    if any(secret in name.lower() for name in request.POST for secret in _SECRET):
        return None
    return [(name, str(value)) for name, values in request.POST.lists() for value in values]
