"""Holding back an answer until what it is about has ended, so that programs need not ask again and again."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, TypeVar

from pydantic import Field

from active_directory import require_thread
from core.deadlines import current_deadline, require_time
from core.shapes import WHOLE_NUMBER, Query
from keys.permissions.cache import read_state

_MAX_SECONDS = 60
_POLL_SECONDS = 0.5
_MAX_WAITING = 2
"""In one process, which has eight threads: each wait occupies one."""

_lock = threading.Lock()
_waiting: list[str] = []
"""The credential of each request that waits."""


_Found = TypeVar("_Found")


class WaitingQuery(Query):
    """How long the answer may take."""

    wait: Annotated[
        int,
        Field(ge=0, le=_MAX_SECONDS, description="Seconds to hold the answer back until it has ended."),
        WHOLE_NUMBER,
    ] = 0


AT_ONCE = WaitingQuery()


def wait_for_end(
    find: Callable[[], _Found], *, has_ended: Callable[[_Found], bool], query: WaitingQuery, credential: str
) -> _Found:
    """What `find` finds, once it has ended or after as many seconds as the query has.

    At once if too many wait already: the caller is told when to ask again. Raises OutOfTime when the client leaves.
    Once anybody's access has changed, the caller may no longer be one who may look: nothing newer is found then.
    """
    require_thread()
    access = read_state()
    found = find()
    with _slot(credential) as is_free:
        deadline = time.monotonic() + query.wait if is_free else 0.0
        if (of_request := current_deadline.get()) is not None:
            deadline = min(deadline, of_request.at - 2 * _POLL_SECONDS)
        while not has_ended(found) and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(_POLL_SECONDS, left))
            require_time(changes=False)
            if access is None or read_state() != access:
                break
            found = find()
    return found


@contextmanager
def _slot(credential: str) -> Iterator[bool]:
    """Whether there is room for one more wait, of which a credential has one at a time."""
    with _lock:
        is_free = len(_waiting) < _MAX_WAITING and credential not in _waiting
        if is_free:
            _waiting.append(credential)
    try:
        yield is_free
    finally:
        if is_free:
            with _lock:
                _waiting.remove(credential)
