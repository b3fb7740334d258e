"""Bodies on their way in: as much as a request may bring, in as much time as it may take, within so much memory.

While a body arrives nothing is held for it but its connection and what has come. What is wrong with a body is noted in
the environment for the middleware, so that the refusal is counted, logged and rendered like any other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import Any

from core.errors import BodyTooLarge, GatewayError, MalformedRequest
from gateway.middleware.body_limit import NOT_RECEIVED, ExpectedBody, expected_body
from gateway.server.environ import Environ

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

RATE = 65_536
"""Bytes. For each so many that have arrived, a body may take a second longer."""
DISCARD_SECONDS = 5.0
"""How long the rest of a refused body is read, for the client's sake."""
PAUSE_SECONDS = 0.25
"""A client that sends nothing for so long is waiting for the answer."""


class BodyNotReceived(GatewayError):
    status, code, title = 408, "Request.Timeout", "The request body did not arrive in time"


class Bodies:
    """All bodies of this process. Each has `seconds` to arrive; `room` is how many bytes of them are kept at once.

    When there is no more room, the one that has been arriving longest gives way: who sends slowly to fill the memory
    only takes it from themselves.
    """

    def __init__(self, *, seconds: float, room: int) -> None:
        self._seconds = seconds
        self._room = room
        self._kept = 0
        self._arriving: dict[asyncio.Timeout, int] = {}  # in their order, with the bytes that have come

    async def receive(self, environ: Environ, receive: Receive) -> int:
        """Let the body arrive and put it into the environment; how many bytes are to be given to `release` later."""
        body = environ["wsgi.input"] = BytesIO()
        try:
            expected = expected_body(environ)
        except BodyTooLarge:
            await _discard(environ, receive)
            return 0
        except GatewayError:  # the middleware raises it again
            return 0
        if expected is None:
            return 0
        try:
            is_whole, kept = await self._receive(body, expected, receive)
        except TimeoutError:
            environ[NOT_RECEIVED] = BodyNotReceived(headers={"Connection": "close"})
            environ["wsgi.input"] = BytesIO()
            return 0
        if not is_whole and body.tell() > expected.limit:
            await _discard(environ, receive)
        elif not is_whole:
            environ[NOT_RECEIVED] = MalformedRequest("The body ended before it was complete.")
        body.seek(0)
        return kept

    def release(self, size: int) -> None:
        """Release `size` bytes of buffered bodies."""
        self._kept -= size

    async def _receive(self, body: BytesIO, expected: ExpectedBody, receive: Receive) -> tuple[bool, int]:
        """Whether it came to its end, and the bytes that are kept of it. Raises TimeoutError when it takes too long."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(self._seconds) as clock:
            self._arriving[clock] = 0
            try:
                is_whole = False
                while not is_whole and body.tell() <= expected.limit:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    body.write(message["body"])
                    is_whole = not message["more_body"] or body.tell() == expected.length
                    if clock in self._arriving:  # it has not given way
                        clock.reschedule(began + self._seconds + body.tell() / RATE)
                        self._keep(clock, len(message["body"]))
            except BaseException:
                self._kept -= self._arriving.pop(clock, 0)
                raise
            return is_whole, self._arriving.pop(clock, 0)
        raise AssertionError("unreachable")

    def _keep(self, clock: asyncio.Timeout, size: int) -> None:
        self._kept += size
        self._arriving[clock] += size
        while self._kept > self._room and self._arriving:
            oldest = next(iter(self._arriving))
            self._kept -= self._arriving.pop(oldest)
            if not oldest.expired():
                oldest.reschedule(0)


async def _discard(environ: Environ, receive: Receive) -> None:
    """Take what the client is still sending of a refused body: the answer would close the connection under its hands,
    and many clients then report that and not the answer. One that pauses gets the answer at once.
    """
    if "HTTP_EXPECT" in environ:  # it waits for a go-ahead, which receiving would give
        return
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            while True:
                async with asyncio.timeout(PAUSE_SECONDS):
                    message = await receive()
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return
