"""What supervisors ask: is the process alive, can it do its work, how is it doing. No credential is looked at here."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from core.network.ip_addresses import KnownAddresses, parse_address
from gateway.monitoring.metrics import CONTENT_TYPE, exposition
from gateway.monitoring.readiness import HealthStatus, readiness, status_of


def _may_see_details(request: HttpRequest) -> bool:
    allowed = KnownAddresses(settings.CONFIGURATION.Metrics.AllowedAddresses)
    return parse_address(request.client_address) in allowed  # type: ignore[attr-defined]


@require_safe
def health(_request: HttpRequest) -> HttpResponse:
    """Alive: this process answers. Asks nothing else, so that nothing else can make a supervisor restart it."""
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Ready: the database answers and has its tables. The line for each check goes to the allowed addresses only."""
    checks = readiness.checks()
    status = status_of(checks)
    body: dict[str, object] = {"status": status}
    if _may_see_details(request):
        body["checks"] = [check.as_json() for check in checks]
    return JsonResponse(body, status=503 if status is HealthStatus.UNAVAILABLE else 200)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The measurements for Prometheus. To others this address does not exist."""
    if not _may_see_details(request):
        raise Http404
    return HttpResponse(exposition(), content_type=CONTENT_TYPE)
