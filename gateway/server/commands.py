"""The command lines of the gateway's own processes: the web server and the worker. What starts them is elsewhere."""

import sys
from collections.abc import Sequence


def web_command(
    *,
    host: str,
    port: int,
    application: str = "gateway.asgi:application",
    workers: int = 2,
    certificate: Sequence[str] = (),
) -> list[str]:
    """Granian: processes that are replaced when lost, each with connections for 1024 clients, who may be slow.

    Beyond them it holds back. The head of a request may have 64 KB. HTTP/2, which no proxy in front has to speak to us,
    would let one client have many slow requests. SIGHUP replaces the processes without a pause. SIGTERM gives them 50 s
    for what they are answering: systemd and Kubernetes give the server 60. `certificate` are the files of a certificate
    and its key: then it speaks TLS.
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
    """One Celery worker; two processes are as many as one domain controller's writes can use."""
    return [
        *(sys.executable, *options, "-m", "celery", "--quiet"),
        *("--app", "gateway", "worker", "--concurrency", str(concurrency), "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    ]
