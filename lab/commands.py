"""How each process of the gateway is run, for the demonstration and for the end-to-end tests."""

import socket
import sys
from pathlib import Path

from gateway.server import commands
from gateway.server.commands import web_command

__all__ = ["PROJECT", "manage_command", "redis_answers", "redis_command", "web_command", "worker_command"]

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


def worker_command() -> list[str]:
    """One Celery worker. The demonstration may run as root, which its domain controller needs."""
    return commands.worker_command("-W", "ignore:You're running the worker with superuser")


def manage_command(*arguments: str) -> list[str]:
    """A management command."""
    return [sys.executable, str(PROJECT / "manage.py"), *arguments]
