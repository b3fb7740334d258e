"""How long a request may go on beginning new work, and whether anybody still waits for its answer.

What a request has sent to a directory is never given up by it; and a worker, whose work nobody waits for, has none.
"""

import time
from contextvars import ContextVar
from dataclasses import dataclass

from gateway.core.errors import ServiceUnavailable


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
    """Before a piece of work begins: raises OutOfTime when the request's time is over.

    One that `changes` nothing is ended, too, when the client has gone away. A change is not: whoever retries it is
    answered with what became of it.
    """
    deadline = current_deadline.get()
    if deadline is None:
        return
    if deadline.is_client_gone and not changes:
        raise OutOfTime("The client has gone away.")
    if time.monotonic() > deadline.at:
        raise OutOfTime("The time for one request is over (`Web:RequestSeconds`); this was not tried.")
