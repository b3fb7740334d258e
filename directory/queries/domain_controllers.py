"""Ask every domain controller of a connection the same question in parallel: some attributes are not replicated.

A server that does not answer within `ANSWER_SECONDS` is reported as silent, and delays nobody.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from active_directory import Client, LdapError, require_thread
from directory.lookup.connection import cached_per_client

ANSWER_SECONDS = 2.0
"""How long each domain controller has to answer in full."""
_CONNECT_SECONDS = 1.0
_MAX_THREADS = 16

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class ServerAnswer(Generic[_Answer]):
    """What one server answered, or why it did not; `url` is its address in the connection."""

    url: str
    answer: _Answer | None = None
    problem: str | None = None


def ask_each_server(client: Client, question: Callable[[Client], _Answer]) -> list[ServerAnswer[_Answer]]:
    """The answer of each server of the connection, in the connection's order.

    `question` gets a client of that server alone. It runs in a thread of its own with the caller's context, so it must
    not use the database.
    """
    require_thread()
    single = _single_server_clients(client)
    executor = ThreadPoolExecutor(max_workers=min(_MAX_THREADS, len(single)), thread_name_prefix="each-server")
    asked = [executor.submit(copy_context().run, question, each) for each in single]
    wait(asked, timeout=ANSWER_SECONDS)
    # Not awaited: threads that still wait for a silent server end with that connection's own time limit.
    executor.shutdown(wait=False, cancel_futures=True)
    return [_answer(each.settings.urls[0], future) for each, future in zip(single, asked, strict=True)]


def _answer(url: str, future: Future[_Answer]) -> ServerAnswer[_Answer]:
    if not future.done() or future.cancelled():
        return ServerAnswer(url, problem=f"It did not answer within {ANSWER_SECONDS:g} seconds.")
    error = future.exception()
    if error is None:
        return ServerAnswer(url, answer=future.result())
    if isinstance(error, LdapError):
        return ServerAnswer(url, problem=error.message or type(error).__name__)
    raise error


@cached_per_client
def _single_server_clients(client: Client) -> Sequence[Client]:
    """A client for each server, kept because its pool remembers a refused password and does not try it again."""
    settings = replace(
        client.settings, pool_size=2, connect_seconds=_CONNECT_SECONDS, operation_seconds=_CONNECT_SECONDS
    )
    return [Client(replace(settings, urls=(url,)), client.opener) for url in client.settings.urls]
