"""Renders errors as problem details (RFC 9457) or pages, here and nowhere else. The errors are in `core.errors`."""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import structlog
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, UnreadablePostError
from django.middleware.csrf import REASON_BAD_ORIGIN
from django.template.loader import render_to_string
from django.utils.encoding import escape_uri_path
from django.utils.translation import get_language_from_request, override
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
from core.shapes import encode_json
from gateway.surfaces.routes import PROGRAM_PATHS

logger = structlog.get_logger(__name__)

MACHINE_PATHS = ("/rest/", *PROGRAM_PATHS)
"""Errors below these paths are rendered as problem details, never as pages."""


def is_machine_path(path: str) -> bool:
    return f"{path}/".startswith(MACHINE_PATHS)


def problem_of(request: HttpRequest, error: GatewayError) -> dict[str, Any]:
    """The problem details of an error, with the path of the request and its id, which is in the logs."""
    return {
        **error.as_problem(),
        "instance": escape_uri_path(request.path),
        "requestId": getattr(request, "request_id", ""),
    }


def problem_response(request: HttpRequest, error: GatewayError) -> HttpResponse:
    """Render an error as problem details."""
    content = encode_json(problem_of(request, error))
    return HttpResponse(content, status=error.status, headers=error.headers, content_type="application/problem+json")


def error_response(request: HttpRequest, error: GatewayError) -> HttpResponse:
    """Render an error as problem details on machine paths, else as a page."""
    return problem_response(request, error) if is_machine_path(request.path) else error_page(request, error)


def error_page(request: HttpRequest, error: GatewayError, hint: str = "") -> HttpResponse:
    """Render an error as a page that needs neither the database, which may be down, nor a signed-in person."""
    shown = {"problem": error, "hint": hint, "request_id": getattr(request, "request_id", "")}
    with in_language_of_request(request):
        content = render_to_string("console/refusal_alone.html", shown)
    return HttpResponse(content, status=error.status, headers=error.headers)


def error_of(exception: Exception) -> GatewayError:
    """Return the error that the caller gets. An unexpected exception is logged with its traceback, not revealed."""
    if isinstance(exception, GatewayError):
        return exception
    for kinds, status in _DJANGO_EXCEPTIONS:
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


_DJANGO_EXCEPTIONS = ((Http404, 404), (PermissionDenied, 403), (SuspiciousOperation, 400), (BadRequest, 400))


def exception_handler(exception: Exception, context: Mapping[str, Any]) -> HttpResponse:
    """Handle every exception of REST framework's views (its setting EXCEPTION_HANDLER)."""
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
    """Turn an error page of Django's own into a problem; return any other response unchanged."""
    error = _BY_STATUS.get(response.status_code)
    if error is None or not response.get("Content-Type", "").startswith("text/"):
        return response
    problem = problem_response(request, error())
    if "Allow" in response:
        problem["Allow"] = response["Allow"]
    return problem


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a missing or wrong CSRF token: with a plain 403 for programs, with advice for people."""
    if is_machine_path(request.path):
        return problem_response(request, Forbidden())
    logger.info("CSRF token refused", path=request.path, reason=reason)
    if reason.startswith(_BAD_ORIGIN_PREFIX):
        hint = _(
            "The form came from {origin}, which is not the address that the gateway knows. If people open the console "
            "there, an administrator has to name it in GATEWAY_TRUSTED_ORIGINS."
        ).format(origin=request.META.get("HTTP_ORIGIN", ""))
    else:
        hint = _("Your session has changed since this page was opened. Go back and reload it.")
    return error_page(request, Forbidden(), hint)


_BAD_ORIGIN_PREFIX = REASON_BAD_ORIGIN.partition("%s")[0]


def _handler(error: type[GatewayError]) -> Callable[..., HttpResponse]:
    def handle(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:  # noqa: ARG001 - Django's
        return error_response(request, error())

    return handle


handler400 = _handler(InvalidRequest)
handler403 = _handler(Forbidden)
handler404 = _handler(NotFound)


def handler500(request: HttpRequest) -> HttpResponse:
    """Answer an exception raised outside of views, such as in a middleware: 503 if the database is down, else 500."""
    is_database_down = isinstance(sys.exc_info()[1], (OperationalError, InterfaceError))
    return error_response(request, ServiceUnavailable() if is_database_down else GatewayError())


def in_language_of_request(request: HttpRequest) -> AbstractContextManager[None]:
    """Activate the language chosen in this browser, or else the best match of Accept-Language, within the block.

    It must not last longer: threads are reused, also for requests of programs.
    """
    return override(get_language_from_request(request))
