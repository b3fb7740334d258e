"""The command lines of the gateway's own processes, as this checkout runs them."""

import sys
from pathlib import Path

from gateway.server import commands
from gateway.server.commands import web_command

__all__ = ["PROJECT", "manage_command", "web_command", "worker_command"]

PROJECT = Path(__file__).resolve().parent.parent


def worker_command() -> list[str]:
    """One Celery worker. The demonstration may run as root, which its domain controller needs."""
    return commands.worker_command("-W", "ignore:You're running the worker with superuser")


def manage_command(*arguments: str) -> list[str]:
    """A management command."""
    return [sys.executable, str(PROJECT / "manage.py"), *arguments]
