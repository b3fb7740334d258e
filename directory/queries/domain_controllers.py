"""Each domain controller of a connection asked for itself, at once: some of what they know is not replicated.

Who does not answer in a moment is reported as silent, and keeps nobody waiting.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from active_directory import Client, LdapError

SECONDS = 2.0
"""How long each domain controller has for its whole answer."""
_CONNECT_SECONDS = 1.0
_MOST_AT_ONCE = 16

_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class ServerAnswer(Generic[_Told]):
    """What one server said, or why nothing was heard from it; `url` is as the connection names it."""

    url: str
    told: _Told | None = None
    problem: str | None = None


def ask_each(client: Client, question: Callable[[Client], _Told]) -> list[ServerAnswer[_Told]]:
    """What each server of the connection answers to the same question, in the connection's order.

    `question` gets a client that knows this server alone. It runs in a thread of its own, as a part of what its
    caller does: it must not use the database.
    """
    single = _clients_of(client)
    executor = ThreadPoolExecutor(max_workers=min(_MOST_AT_ONCE, len(single)), thread_name_prefix="each-server")
    asked = [executor.submit(copy_context().run, question, each) for each in single]
    wait(asked, timeout=SECONDS)
    executor.shutdown(wait=False, cancel_futures=True)
    return [_answer(each.settings.urls[0], future) for each, future in zip(single, asked, strict=True)]


def _answer(url: str, future: Future[_Told]) -> ServerAnswer[_Told]:
    if not future.done() or future.cancelled():
        return ServerAnswer(url, problem=f"It did not answer within {SECONDS:g} seconds.")
    error = future.exception()
    if error is None:
        return ServerAnswer(url, told=future.result())
    if isinstance(error, LdapError):
        return ServerAnswer(url, problem=error.message or type(error).__name__)
    raise error


_lock = Lock()
_known: WeakKeyDictionary[Client, Sequence[Client]] = WeakKeyDictionary()


def _clients_of(client: Client) -> Sequence[Client]:
    """A client for each server, kept: its pool does not offer a refused password again, which a domain would count."""
    with _lock:
        found = _known.get(client)
        if found is None:
            impatient = replace(
                client.settings, pool_size=2, connect_seconds=_CONNECT_SECONDS, operation_seconds=_CONNECT_SECONDS
            )
            found = _known[client] = [
                Client(replace(impatient, urls=(url,)), client.opener) for url in client.settings.urls
            ]
        return found
