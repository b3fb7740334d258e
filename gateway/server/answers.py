"""What an application answers, in the blocks in which it is sent. Runs in threads; sends nothing itself."""

from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from dataclasses import dataclass
from itertools import chain

from django.http import HttpResponseBase

from core.deadlines import Deadline, current_deadline
from gateway.server.environ import Environ

BLOCK = 65_536
"""Bytes. A file is read in blocks of this size, and one up to it is sent at once."""

Application = Callable[[Environ], HttpResponseBase]
Header = tuple[bytes, bytes]


class Blocks:
    """The blocks of an answer that is sent as it is made, one for each time its reader has taken the last ones.

    No two calls need be in the same thread; all of them are in the context of the request. Whoever has one closes it.
    """

    def __init__(self, response: HttpResponseBase, *, gathered: bool) -> None:
        self._response = response
        self._iterator: Iterator[bytes] = iter(response)
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
        self._context.run(self._response.close)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its body, or with the first block of it and what makes the others."""

    status: int
    headers: list[Header]
    body: bytes
    rest: Blocks | None


def answer(application: Application, environ: Environ, deadline: Deadline) -> Answer:
    """Let the application answer a request whose body has arrived."""
    deadline.has_begun = True
    current_deadline.set(deadline)  # threads are reused: it takes the place of the last request's
    response = application(environ)
    status, headers = response.status_code, _headers(response)
    if not response.streaming:
        body: bytes = response.content  # type: ignore[attr-defined]  # the stubs know it of HttpResponse alone
        response.close()
        return Answer(status, headers, body, None)
    # Of what has a length all of it is there already, and can be read ahead.
    blocks = Blocks(response, gathered="Content-Length" in response)
    if environ["REQUEST_METHOD"] == "HEAD":
        blocks.close()
        return Answer(status, headers, b"", None)
    return Answer(status, headers, blocks.next(), blocks)


def _headers(response: HttpResponseBase) -> list[Header]:
    cookies = (("Set-Cookie", cookie.output(header="")) for cookie in response.cookies.values())
    return [
        (name.encode("latin-1"), value.encode("latin-1")) for name, value in chain(response.headers.items(), cookies)
    ]
