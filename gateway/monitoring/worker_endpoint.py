"""What a worker answers to Prometheus, where `Metrics:WorkerAddress` says that it should.

On a host with a web server nobody needs it: /metrics there tells of that host's workers too.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import structlog
from django.conf import settings

from core.network.ip_addresses import KnownAddresses, parse_address
from gateway.monitoring.metrics import CONTENT_TYPE, exposition_of_worker

logger = structlog.get_logger(__name__)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None: ...


def serve() -> None:
    """Answer from now on, in a thread; whoever may not ask is told that there is nothing."""
    host, _, port = settings.CONFIGURATION.Metrics.WorkerAddress.rpartition(":")
    if not port:
        return
    allowed = KnownAddresses(settings.CONFIGURATION.Metrics.AllowedAddresses)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/metrics" or parse_address(environ["REMOTE_ADDR"]) not in allowed:
            start_response("404 Not Found", [])
            return [b""]
        start_response("200 OK", [("Content-Type", CONTENT_TYPE)])
        return [exposition_of_worker()]

    try:
        server = make_server(host.strip("[]"), int(port), application, handler_class=_Quiet)
    except OSError as error:  # a worker that works is worth more than one that is measured
        logger.error("the worker's measurements cannot be asked for", reason=str(error))  # noqa: TRY400
        return
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
