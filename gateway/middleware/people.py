"""The middleware for browsers: security headers of every response, static files, language, session, signed-in person.

Programs get only the headers (`ProgramsMiddleware` bypasses the rest). Every request counts against the rate limit of
an IP address, so browsers must cache static files for ever: their URLs change with their content. That needs no build
step: a file is served from its package under its own name, and a fingerprint of its content is in the query (`?v=`).
"""

import hashlib
from functools import cache

from django.conf import settings
from django.contrib.auth import middleware as auth
from django.contrib.sessions import middleware as sessions
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.security import SecurityMiddleware
from django.utils.cache import patch_vary_headers
from django.utils.http import urlencode
from django.utils.translation import get_language
from whitenoise import middleware as whitenoise

from gateway.middleware import Middleware
from gateway.surfaces.problems import in_language_of_request, is_machine_path
from keys.sign_in import login_throttle
from keys.sign_in.sessions import note_seen


class WhiteNoiseMiddleware(whitenoise.WhiteNoiseMiddleware):  # type: ignore[misc]  # has no types
    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response: HttpResponseBase = super().__call__(request)
        version = request.GET.get("v") if request.path_info.startswith(settings.STATIC_URL) else None
        if version is None or response.status_code != 200:
            return response
        # During a rolling upgrade the page may come from another release than the process that serves its files.
        if version == content_fingerprint(request.path_info.removeprefix(settings.STATIC_URL)):
            response["Cache-Control"] = CACHE_FOREVER
        return response


class LanguageMiddleware(Middleware):
    """Chooses the language of pages for each request; the back office is only in English."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_machine_path(request.path) or request.path.startswith("/admin/"):
            return self.get_response(request)
        with in_language_of_request(request):
            response = self.get_response(request)
            response.headers.setdefault("Content-Language", get_language() or settings.LANGUAGE_CODE)
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        return response


class SessionMiddleware(sessions.SessionMiddleware):
    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response = super().process_response(request, response)
        login_throttle.set_device_cookie(request, response)
        return response


class AuthenticationMiddleware(auth.AuthenticationMiddleware):
    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        note_seen(request)


CACHE_FOREVER = "public, max-age=31536000, immutable"


@cache
def content_fingerprint(name: str) -> str | None:
    """Return a digest of a static file's content, or None if there is no such file.

    The files belong to the release, so they do not change while a process runs.
    """
    path = finders.find(name)
    if not isinstance(path, str):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


class FingerprintedStaticFiles(StaticFilesStorage):
    """Adds the content's fingerprint to the URLs of static files."""

    def url(self, name: str | None) -> str:
        address = super().url(name)
        fingerprint = content_fingerprint(name) if name else None
        return address if fingerprint is None else f"{address}?{urlencode({'v': fingerprint})}"


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# Swagger UI needs an inline script and inline styles. It exists in Development only.
DOCUMENTATION_POLICY = CONTENT_SECURITY_POLICY.replace(
    "script-src 'self'", "script-src 'self' 'unsafe-inline'"
).replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
DOCUMENTATION_PATHS = ("/api/docs", "/rest/docs")


class BrowserSecurityMiddleware(SecurityMiddleware):
    """Sets Django's security headers and ours, and checks the Host header.

    The referrer policy is `same-origin` and not `no-referrer`: Django's CSRF check over TLS needs the Referer.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Raise DisallowedHost, which Django answers with 400, unless the Host header names one of ALLOWED_HOSTS."""
        if not request.path.startswith(("/health", "/metrics")):  # load balancers and Prometheus use IP addresses
            request.get_host()

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response = super().process_response(request, response)
        documentation = settings.DEVELOPMENT and request.path in DOCUMENTATION_PATHS
        policy = DOCUMENTATION_POLICY if documentation else CONTENT_SECURITY_POLICY
        if (target := getattr(response, "form_target", None)) is not None:  # the form's response redirects to it
            policy = policy.replace("form-action 'self'", f"form-action 'self' {target}")
        response["Content-Security-Policy"] = policy
        if is_machine_path(request.path):
            response.headers.setdefault("Cache-Control", "no-store")
        return response
