"""What browsers are told about every answer: where content may come from, and what is not to be kept."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from gateway.surfaces.problems import is_machine_path

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# Swagger UI's page starts itself with an inline script and styles itself from scripts. Exists in Development only.
DOCUMENTATION_POLICY = CONTENT_SECURITY_POLICY.replace(
    "script-src 'self'", "script-src 'self' 'unsafe-inline'"
).replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
MOST_HOSTS = 256
"""So many Host headers are remembered as good. Where every name below a domain is ours there is no end of them."""
DOCUMENTATION_PATHS = ("/api/docs", "/rest/docs")


class BrowserSecurityMiddleware:
    """Security headers, and the check that the request is for a host this gateway answers for."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response
        self._own_hosts: set[str] = set()
        self.hsts = f"max-age={settings.SECURE_HSTS_SECONDS}" if settings.SECURE_HSTS_SECONDS else None

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path.startswith(("/health", "/metrics")):  # load balancers and Prometheus ask by address
            self._require_own_host(request)
        response = self.get_response(request)
        documentation = settings.DEVELOPMENT and request.path in DOCUMENTATION_PATHS
        policy = DOCUMENTATION_POLICY if documentation else CONTENT_SECURITY_POLICY
        if (target := getattr(response, "form_target", None)) is not None:  # where the answer of its form leads on to
            policy = policy.replace("form-action 'self'", f"form-action 'self' {target}")
        response["Content-Security-Policy"] = policy
        response["X-Content-Type-Options"] = "nosniff"
        # Not no-referrer: Django's CSRF check over TLS wants the Referer of the same origin.
        response["Referrer-Policy"] = "same-origin"
        response["Cross-Origin-Opener-Policy"] = "same-origin"
        if is_machine_path(request.path) and "Cache-Control" not in response:
            response["Cache-Control"] = "no-store"
        if self.hsts and request.is_secure():
            response["Strict-Transport-Security"] = self.hsts
        return response

    def _require_own_host(self, request: HttpRequest) -> None:
        """Raise DisallowedHost, which Django answers with 400, for another host than one of ours.

        Nothing else would ask for it. What was found good stays so.
        """
        host = request.META.get("HTTP_HOST")
        if host not in self._own_hosts:
            request.get_host()
            if host is not None and len(self._own_hosts) < MOST_HOSTS:
                self._own_hosts.add(host)
