"""The command lines of the web server and the worker, and how a management command turns into one of them."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from django.conf import settings

from core.configuration import SECRET_VARIABLES


def web_command(
    *,
    host: str,
    port: int,
    application: str = "gateway.asgi:application",
    workers: int = 2,
    certificate: Sequence[str] = (),
) -> list[str]:
    """Granian with worker processes that are respawned when lost, each with up to 1024 connections of slow clients.

    The head of a request may have 64 KB. HTTP/2 is off: no proxy has to speak it to us, and it would let one client
    send many slow requests at once. SIGHUP replaces the processes without a pause; SIGTERM gives them 50 s for their
    current requests, since systemd and Kubernetes give the server 60. `certificate` names the files of a certificate
    and its key, and turns TLS on.
    """
    return [
        *(sys.executable, "-m", "directory_management_gateway.web_server", application),
        *("--interface", "asginl", "--loop", "uvloop"),
        *("--host", host, "--port", str(port), "--workers", str(workers)),
        *("--backpressure", "1024", "--http", "1", "--no-ws"),
        *("--http1-buffer-size", "65536"),
        *(("--ssl-certificate", certificate[0], "--ssl-keyfile", certificate[1]) if certificate else ()),
        *("--respawn-failed-workers", "--respawn-interval", "1", "--workers-kill-timeout", "50"),
    ]


def worker_command(*options: str, concurrency: int = 2) -> list[str]:
    """A Celery worker; more than two processes do not make one domain controller write faster."""
    return [
        *(sys.executable, *options, "-m", "celery", "--quiet"),
        *("--app", "gateway", "worker", "--concurrency", str(concurrency), "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    ]


_PATH_VARIABLES = ("GATEWAY_CONFIG", "GATEWAY_DATA_DIR", *(f"{name}_FILE" for name in SECRET_VARIABLES))


def become(command: list[str]) -> NoReturn:
    """Replace this process with the command, so that signals and exit statuses pass between it and our parent.

    It runs in the folder of the gateway's packages: granian and Celery look for modules in their working directory.
    """
    environment = dict(os.environ)
    for name in _PATH_VARIABLES:
        if environment.get(name):
            environment[name] = os.path.abspath(environment[name])
    sys.stdout.flush()
    sys.stderr.flush()
    os.chdir(settings.BASE_DIR)
    os.execve(command[0], command, environment)  # noqa: S606 - our own command, without a shell
