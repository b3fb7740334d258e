"""How long a request may go on starting new work, and whether its client is still waiting.

A deadline never cuts off what was already sent to a directory. Workers have none: nobody waits for them.
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
    """`at` is by the monotonic clock of the process."""

    at: float
    has_begun: bool = False
    is_client_gone: bool = False


current_deadline: ContextVar[Deadline | None] = ContextVar("current_deadline", default=None)
"""That of the request being answered."""


def require_time(*, changes: bool) -> None:
    """Call it before each piece of work; raises OutOfTime when the request has run out of time.

    Work that `changes` nothing also ends when the client has gone away. A change goes on: a retry is answered with
    what became of it.
    """
    deadline = current_deadline.get()
    if deadline is None:
        return
    if deadline.is_client_gone and not changes:
        raise OutOfTime(message("The client has gone away."))
    if time.monotonic() > deadline.at:
        raise OutOfTime(message("The request ran out of time (`Web:RequestSeconds`) before this was tried."))
