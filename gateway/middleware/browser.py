"""What browsers are told about every answer: where content may come from, and what is not to be kept."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.security import SecurityMiddleware

from gateway.surfaces.problems import is_machine_path

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# Swagger UI's page starts itself with an inline script and styles itself from scripts. Exists in Development only.
DOCUMENTATION_POLICY = CONTENT_SECURITY_POLICY.replace(
    "script-src 'self'", "script-src 'self' 'unsafe-inline'"
).replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
DOCUMENTATION_PATHS = ("/api/docs", "/rest/docs")


class BrowserSecurityMiddleware(SecurityMiddleware):
    """Django's security headers and ours, and the check that the request is for a host this gateway answers for.

    The referrer stays within the origin and is not left out: Django's CSRF check over TLS wants it.
    """

    def process_request(self, request: HttpRequest) -> None:
        """Raise DisallowedHost, which Django answers with 400, for another host than one of ours."""
        if not request.path.startswith(("/health", "/metrics")):  # load balancers and Prometheus ask by address
            request.get_host()

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response = super().process_response(request, response)
        documentation = settings.DEVELOPMENT and request.path in DOCUMENTATION_PATHS
        policy = DOCUMENTATION_POLICY if documentation else CONTENT_SECURITY_POLICY
        if (target := getattr(response, "form_target", None)) is not None:  # where the answer of its form leads on to
            policy = policy.replace("form-action 'self'", f"form-action 'self' {target}")
        response["Content-Security-Policy"] = policy
        if is_machine_path(request.path):
            response.headers.setdefault("Cache-Control", "no-store")
        return response
