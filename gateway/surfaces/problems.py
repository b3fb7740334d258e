"""Problem details (RFC 9457): the one place where errors become responses. The errors are in `core.errors`."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, UnreadablePostError
from django.middleware.csrf import REASON_BAD_ORIGIN
from django.template.loader import render_to_string
from django.utils.encoding import escape_uri_path
from django.utils.translation import gettext as _
from rest_framework.exceptions import APIException

from core.errors import (
    BodyTooLarge,
    Forbidden,
    GatewayError,
    InvalidRequest,
    MalformedRequest,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    ServiceUnavailable,
    UnsupportedMediaType,
    UriTooLong,
)
from core.text.json_text import json_of
from gateway.surfaces.languages import in_language_of
from gateway.surfaces.routes import FOR_PROGRAMS

logger = structlog.get_logger(__name__)

MACHINE_PATHS = ("/rest/", *FOR_PROGRAMS)
"""Everything below answers errors as problem details, never as pages."""


def is_machine_path(path: str) -> bool:
    return f"{path}/".startswith(MACHINE_PATHS)


def problem_of(request: HttpRequest, error: GatewayError) -> dict[str, Any]:
    """The problem of an error: its own members, where it happened, and the id to find it by in the logs."""
    return {
        **error.as_problem(),
        "instance": escape_uri_path(request.path),
        "requestId": getattr(request, "request_id", ""),
    }


def problem_response(request: HttpRequest, error: GatewayError) -> HttpResponse:
    """The response of an error."""
    content = json_of(problem_of(request, error))
    return HttpResponse(content, status=error.status, headers=error.headers, content_type="application/problem+json")


def error_response(request: HttpRequest, error: GatewayError) -> HttpResponse:
    """The same for a middleware, which also serves people: a page outside the machine paths."""
    return problem_response(request, error) if is_machine_path(request.path) else page_of(request, error)


def page_of(request: HttpRequest, error: GatewayError, hint: str = "") -> HttpResponse:
    """An error as a page that needs nothing but itself: the database may be away, and nobody signed in."""
    shown = {"problem": error, "hint": hint, "request_id": getattr(request, "request_id", "")}
    with in_language_of(request):
        content = render_to_string("console/refusal_alone.html", shown)
    return HttpResponse(content, status=error.status, headers=error.headers)


def error_of(exception: Exception) -> GatewayError:
    """What an exception means to the caller. One that nobody foresaw is logged with its traceback and tells nothing."""
    if isinstance(exception, GatewayError):
        return exception
    for kinds, status in _FORESEEN:
        if isinstance(exception, kinds):
            return _BY_STATUS[status]()
    if isinstance(exception, UnreadablePostError):
        return MalformedRequest("The body ended before it was complete.")
    if isinstance(exception, APIException):
        return _BY_STATUS.get(exception.status_code, InvalidRequest)()
    if isinstance(exception, (OperationalError, InterfaceError)):
        logger.error("database not available", exc_info=exception)
        return ServiceUnavailable()
    logger.error("unforeseen error", exc_info=exception)
    return GatewayError()


_FORESEEN = ((Http404, 404), (PermissionDenied, 403), (SuspiciousOperation, 400))


def exception_handler(exception: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """REST framework's hook: every exception of its views ends here."""
    error = error_of(exception)
    response = problem_response(context["request"], error)
    if error.status == 405:
        response["Allow"] = ", ".join(context["view"].allowed_methods)
    return response


_BY_STATUS: dict[int, type[GatewayError]] = {
    error.status: error
    for error in (
        InvalidRequest,
        Forbidden,
        NotFound,
        MethodNotAllowed,
        NotAcceptable,
        BodyTooLarge,
        UriTooLong,
        UnsupportedMediaType,
        GatewayError,
    )
}


def as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Django's own error page as a problem; any other response unchanged."""
    error = _BY_STATUS.get(response.status_code)
    if error is None or not response.get("Content-Type", "").startswith("text/"):
        return response
    problem = problem_response(request, error())
    if "Allow" in response:
        problem["Allow"] = response["Allow"]
    return problem


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A missing or wrong CSRF token: 403 like any other for programs, what to do about it for people."""
    if is_machine_path(request.path):
        return problem_response(request, Forbidden())
    logger.info("CSRF token refused", path=request.path, reason=reason)
    if reason.startswith(_FOREIGN_ORIGIN):
        hint = _(
            "The form came from {origin}, which is not the address that the gateway knows. If people open the console "
            "there, an administrator has to name it in GATEWAY_TRUSTED_ORIGINS."
        ).format(origin=request.META.get("HTTP_ORIGIN", ""))
    else:
        hint = _("Your session has changed since this page was opened. Go back and reload it.")
    return page_of(request, Forbidden(), hint)


_FOREIGN_ORIGIN: Final = REASON_BAD_ORIGIN.partition("%s")[0]


def _handler(error: type[GatewayError]) -> Callable[..., HttpResponse]:
    def handle(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001 - Django's
        return error_response(request, error())

    return handle


handler400 = _handler(InvalidRequest)
handler403 = _handler(Forbidden)
handler404 = _handler(NotFound)


def handler500(request: HttpRequest) -> HttpResponse:
    """What was raised outside of every view, as by a middleware; a database that is away is no failure of ours."""
    is_away = isinstance(sys.exc_info()[1], (OperationalError, InterfaceError))
    return error_response(request, ServiceUnavailable() if is_away else GatewayError())
