"""The endpoints for load balancers and Prometheus: liveness, readiness, metrics. They need no credential.

A worker serves its own metrics at `Metrics:WorkerAddress`, for hosts without a web server: a web server's /metrics
includes the workers of its host.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import structlog
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from core.ip_addresses import AddressList, parse_address
from gateway.monitoring.metrics import CONTENT_TYPE, exposition, exposition_of_worker
from gateway.monitoring.readiness import HealthStatus, readiness, status_of


def _may_see_details(request: HttpRequest) -> bool:
    allowed = AddressList(settings.CONFIGURATION.Metrics.AllowedAddresses)
    return parse_address(request.client_address) in allowed  # type: ignore[attr-defined]


@require_safe
def health(_request: HttpRequest) -> HttpResponse:
    """Liveness: this process answers. It checks nothing else, so that no outage elsewhere gets it restarted."""
    return JsonResponse({"status": "ok"})


@require_safe
def ready(request: HttpRequest) -> HttpResponse:
    """Readiness: the database answers and has its tables. Only allowed addresses see the single checks."""
    checks = readiness.checks()
    status = status_of(checks)
    body: dict[str, object] = {"status": status}
    if _may_see_details(request):
        body["checks"] = [check.as_json() for check in checks]
    return JsonResponse(body, status=503 if status is HealthStatus.UNAVAILABLE else 200)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics for Prometheus; 404 for addresses that are not allowed."""
    if not _may_see_details(request):
        raise Http404
    return HttpResponse(exposition(), content_type=CONTENT_TYPE)


logger = structlog.get_logger(__name__)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


def serve() -> None:
    """Start serving the worker's metrics in a thread, if configured. Addresses that are not allowed get 404."""
    host, _, port = settings.CONFIGURATION.Metrics.WorkerAddress.rpartition(":")
    if not port:
        return
    allowed = AddressList(settings.CONFIGURATION.Metrics.AllowedAddresses)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/metrics" or parse_address(environ["REMOTE_ADDR"]) not in allowed:
            start_response("404 Not Found", [])
            return [b""]
        start_response("200 OK", [("Content-Type", CONTENT_TYPE)])
        return [exposition_of_worker()]

    try:
        server = make_server(host.strip("[]"), int(port), application, handler_class=_Quiet)
    except OSError as error:  # better a worker without metrics than no worker
        logger.error("the worker's measurements cannot be asked for", reason=str(error))  # noqa: TRY400
        return
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
