"""The middleware for people (static files, language, session, sign-in), which `ProgramsMiddleware` spares programs."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth import middleware as auth
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language
from whitenoise import middleware as whitenoise

from gateway.middleware.static_files import keep_for_good
from gateway.surfaces.languages import in_language_of
from gateway.surfaces.problems import is_machine_path
from keys.sign_in import known_devices
from keys.sign_in.sessions import note_seen


class WhiteNoiseMiddleware(whitenoise.WhiteNoiseMiddleware):  # type: ignore[misc]  # has no types
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = super().__call__(request)
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


class SessionMiddleware(sessions.SessionMiddleware):
    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response = super().process_response(request, response)
        known_devices.set_cookie(request, response)
        return response


class AuthenticationMiddleware(auth.AuthenticationMiddleware):
    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        note_seen(request)
