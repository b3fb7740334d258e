"""Bodies on their way in: as much as a request may bring, in as much time as it may take, in as much memory as there is.

While a body arrives nothing is held for it but its connection and what has come. What is wrong with a body is noted in
the environment for the middleware, so that the refusal is counted, logged and rendered like any other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import Any

from gateway.core.errors import BodyTooLarge, GatewayError, MalformedRequest
from gateway.middleware.body_limit import NOT_RECEIVED, ExpectedBody, expected_body
from gateway.server.environ import Environ

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

SECONDS = 20.0
"""Within this time a body must have arrived, and a large one within a second more for each `RATE` bytes that have."""
RATE = 65_536
DISCARD_SECONDS = 5.0
"""So long the rest of a refused body is taken, for the client's sake."""
PAUSE_SECONDS = 0.25
"""A client that sends nothing for so long is waiting for the answer."""


class BodyNotReceived(GatewayError):
    status, code, title = 408, "Request.Timeout", "The request body did not arrive in time"


class Bodies:
    """All bodies of this process. `room` is how many bytes of them it keeps at once.

    When there is no more room, the one that has been arriving longest gives way: who sends slowly to fill the memory
    only takes it from themselves.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept = 0
        self._arriving: dict[asyncio.Timeout, None] = {}

    async def receive(self, environ: Environ, receive: Receive) -> int:
        """Let the body arrive and put it into the environment; the bytes to be given to `release` later."""
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
            is_whole = await self._receive(body, expected, receive)
        except TimeoutError:
            environ[NOT_RECEIVED] = BodyNotReceived(headers={"Connection": "close"})
        else:
            if not is_whole and body.tell() > expected.limit:
                await _discard(environ, receive)
            elif not is_whole:
                environ[NOT_RECEIVED] = MalformedRequest("The body ended before it was complete.")
        size = body.tell()
        body.seek(0)
        return size

    def release(self, size: int) -> None:
        """The bodies of so many bytes are needed no longer."""
        self._kept -= size

    async def _receive(self, body: BytesIO, expected: ExpectedBody, receive: Receive) -> bool:
        """Whether it came to its end. Raises TimeoutError when it takes too long."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(SECONDS) as clock:
            self._arriving[clock] = None
            try:
                while body.tell() <= expected.limit:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    self._keep(body, message["body"])
                    if clock in self._arriving:
                        clock.reschedule(began + SECONDS + body.tell() / RATE)
                    if not message["more_body"] or body.tell() == expected.length:
                        return True
            finally:
                self._arriving.pop(clock, None)
        return False

    def _keep(self, body: BytesIO, part: bytes) -> None:
        body.write(part)
        self._kept += len(part)
        if self._kept > self._room and self._arriving:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
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
