"""The middleware for people (static files, language, session, CSRF, sign-in, messages), which programs pass by.

A session cookie is no credential below `/api`, `/ad`, `/mcp` and `/oauth`: there it is not even looked at.
"""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware import csrf
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language
from whitenoise import middleware as whitenoise

from gateway.middleware.static_files import keep_for_good
from gateway.surfaces.languages import in_language_of
from gateway.surfaces.problems import is_machine_path
from gateway.surfaces.routes import is_for_programs
from keys.sign_in import known_devices
from keys.sign_in.sessions import note_seen


class _ForPeople:
    """Goes before a middleware of the same name in the order of resolution."""

    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        # The documentation pages of /api are pages, but plain ones: they need neither session nor messages.
        if is_for_programs(request.path):
            return self.get_response(request)
        return super().__call__(request)  # type: ignore[misc]


class WhiteNoiseMiddleware(_ForPeople, whitenoise.WhiteNoiseMiddleware):  # type: ignore[misc]  # has no types
    def __call__(self, request: HttpRequest) -> Any:
        response = super().__call__(request)
        if request.path_info.startswith(settings.STATIC_URL) and response.status_code == 200:
            name = request.path_info.removeprefix(settings.STATIC_URL)
            keep_for_good(response, name=name, version=request.GET.get("v"))
        return response


class LanguageMiddleware:
    """Pages in the language of who asks; the back office is in English alone."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_machine_path(request.path) or request.path.startswith("/admin/"):
            return self.get_response(request)
        with in_language_of(request):
            response = self.get_response(request)
            response.headers.setdefault("Content-Language", get_language() or settings.LANGUAGE_CODE)
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        return response


class SessionMiddleware(_ForPeople, sessions.SessionMiddleware):
    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response = super().process_response(request, response)
        known_devices.set_cookie(request, response)
        return response


class CsrfViewMiddleware(_ForPeople, csrf.CsrfViewMiddleware):
    pass


class AuthenticationMiddleware(_ForPeople, auth.AuthenticationMiddleware):
    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        note_seen(request)


class MessageMiddleware(_ForPeople, messages.MessageMiddleware):
    pass
