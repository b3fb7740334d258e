"""What a WSGI application answers, in the blocks in which it is sent. Runs in threads; sends nothing itself."""

from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any

from gateway.server.environ import Environ

BLOCK = 65_536
"""Bytes. A file is read in blocks of this size, and one up to it is sent at once."""

WsgiApplication = Callable[[Environ, Any], Iterable[bytes]]
Header = tuple[bytes, bytes]


class Blocks:
    """The blocks of an answer that is sent as it is made, one for each time its reader has taken the last ones.

    No two calls need be in the same thread; all of them are in the context of the request. Whoever has one closes it.
    """

    def __init__(self, made: Iterable[bytes], *, gathered: bool) -> None:
        self._made = made
        self._iterator = iter(made)
        self._gathered = gathered
        self._context: Context = copy_context()

    def next(self) -> bytes:
        """The next block, empty at the end."""
        return self._context.run(self._next)

    def _next(self) -> bytes:
        parts, size = [], 0
        for part in self._iterator:
            parts.append(part)
            size += len(part)
            if size and not (self._gathered and size < BLOCK):
                break
        return b"".join(parts)

    def close(self) -> None:
        """End it, sent to its end or not."""
        self._context.run(_close, self._made)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its body, or with the first block of it and what makes the others."""

    status: int
    headers: list[Header]
    body: bytes
    rest: Blocks | None


def answer(application: WsgiApplication, environ: Environ) -> Answer:
    """Let the application answer a request whose body has arrived."""
    started: list[tuple[int, list[Header]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        started[:] = [(int(status[:3]), encoded)]

    made = application(environ, start_response)
    if isinstance(made, list) or not getattr(made, "streaming", True):  # the latter is Django's
        body = b"".join(made)
        _close(made)
        return Answer(*started[0], body, None)
    status, headers = started[0]
    # Of what has a length all of it is there already, and can be read ahead.
    blocks = Blocks(made, gathered=any(name.lower() == b"content-length" for name, _ in headers))
    if environ["REQUEST_METHOD"] == "HEAD":
        blocks.close()
        return Answer(status, headers, b"", None)
    return Answer(status, headers, blocks.next(), blocks)


def _close(made: Iterable[bytes]) -> None:
    if (close := getattr(made, "close", None)) is not None:
        close()
