"""How each process of the gateway is run, for the demonstration and for the end-to-end tests."""

import socket
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def redis_command(socket_file: Path) -> list[str]:
    """Redis on a Unix socket alone. Nothing is written to disk: queued work is taken up again from the database."""
    return [
        *("redis-server", "--port", "0", "--unixsocket", str(socket_file), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--dir", str(socket_file.parent), "--loglevel", "warning"),
    ]


def redis_answers(socket_file: Path) -> bool:
    """Whether a Redis on this Unix socket is ready."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(socket_file))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def web_command(*, host: str, port: int, application: str = "gateway.asgi:application", workers: int = 2) -> list[str]:
    """Granian: two processes, replaced when lost, each with connections for 1024 clients, who may be slow.

    Beyond them it holds back. The head of a request may have 64 KB. HTTP/2, which no proxy in front has to speak to us,
    would let one client have many slow requests.
    """
    return [
        *(sys.executable, "-m", "granian", application, "--interface", "asginl", "--loop", "uvloop"),
        *("--host", host, "--port", str(port), "--workers", str(workers)),
        *("--backpressure", "1024", "--http", "1", "--no-ws"),
        *("--http1-buffer-size", "65536"),
        *("--respawn-failed-workers", "--respawn-interval", "1", "--workers-kill-timeout", "10"),
    ]


def worker_command() -> list[str]:
    """One Celery worker; two processes are as many as the domain controller's writes can use."""
    return [
        # The demonstration may run as root, which its domain controller needs.
        *(sys.executable, "-W", "ignore:You're running the worker with superuser", "-m", "celery", "--quiet"),
        *("--app", "gateway", "worker", "--concurrency", "2", "--loglevel", "INFO"),
        *("--without-gossip", "--without-mingle"),
    ]


def manage_command(*arguments: str) -> list[str]:
    """A management command."""
    return [sys.executable, str(PROJECT / "manage.py"), *arguments]
