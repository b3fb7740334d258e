"""Asking a worker for a task. Tasks are asked for by name: their modules stand above whoever asks."""

from typing import Any, Final

from celery import current_app
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

_AWAY: Final = (OperationalError, RedisError, OSError)


class BrokerUnavailable(Exception):
    """The broker did not take the task; nobody will do it."""


def send_task(name: str, *arguments: str, **options: Any) -> None:
    """Ask for a task, with Celery's options; raises BrokerUnavailable."""
    try:
        current_app.send_task(name, args=list(arguments), **options)
    except _AWAY as error:
        raise BrokerUnavailable(str(error)) from error
