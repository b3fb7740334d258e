"""How long a request may start new work, and whether its client is still waiting.

A deadline never cuts off what was already sent to a directory. Workers have none: no client waits for them.
"""

import time
from contextvars import ContextVar
from dataclasses import dataclass

from core.errors import ServiceUnavailable
from core.text.messages import message


class OutOfTime(ServiceUnavailable):
    title = "The request took too long"


@dataclass(slots=True)
class Deadline:
    """`at` is a time of the process's monotonic clock."""

    at: float
    has_begun: bool = False
    is_client_gone: bool = False


current_deadline: ContextVar[Deadline | None] = ContextVar("current_deadline", default=None)
"""The deadline of the request being answered."""


def require_time(*, changes: bool) -> None:
    """Check the deadline before each piece of work. Raises OutOfTime once the request has run out of time.

    Work that `changes` nothing also ends when the client has gone away. A change goes on: the client may retry, and is
    then told its outcome.
    """
    deadline = current_deadline.get()
    if deadline is None:
        return
    if deadline.is_client_gone and not changes:
        raise OutOfTime(message("The client has gone away."))
    if time.monotonic() > deadline.at:
        raise OutOfTime(message("The request ran out of time (`Web:RequestSeconds`) before this was tried."))
