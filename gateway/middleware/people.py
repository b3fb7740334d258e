"""Django's middleware for people (static files, session, CSRF, sign-in, messages), which programs' requests pass by.

A session cookie is no credential below `/api`, `/ad`, `/mcp` and `/oauth`: there it is not even looked at.
"""

from typing import Any

from django.conf import settings
from django.contrib.auth import middleware as auth
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest
from django.middleware import csrf
from whitenoise import middleware as whitenoise

from gateway.middleware.static_files import keep_for_good
from gateway.surfaces.routes import is_for_programs
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


class SessionMiddleware(_ForPeople, sessions.SessionMiddleware):
    pass


class CsrfViewMiddleware(_ForPeople, csrf.CsrfViewMiddleware):
    pass


class AuthenticationMiddleware(_ForPeople, auth.AuthenticationMiddleware):
    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        note_seen(request)


class MessageMiddleware(_ForPeople, messages.MessageMiddleware):
    pass
