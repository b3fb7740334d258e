"""The ASGI application that granian serves. It takes a request in whole, and only then has a thread answer it.

So nothing scarce waits for a client: not while its headers arrive (that is granian's, for which a connection costs a
few kilobytes), not while its body does (`bodies`), and not while it reads an answer that is made as it is sent
(`answers`): a thread makes one block and goes on to other requests until the reader has taken it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

from django.conf import settings

from gateway.middleware.request_id import ARRIVED_AT
from gateway.server.answers import Answer, Application, answer
from gateway.server.bodies import Bodies, Receive
from gateway.server.environ import Scope, environ_of
from gateway.server.sockets import limit_sending
from gateway.server.threads import Threads

ALIVE: Final = "/health"
"""Is answered by a thread of its own: when all others are busy, the process is still alive."""

LARGEST_BODIES: Final = 16
"""So many of the largest bodies are kept at once, or as many smaller ones as take the same memory."""

Send = Callable[[dict[str, Any]], Awaitable[None]]


class Front:
    """Serves one application, with threads and limits as configured."""

    def __init__(self, application: Application) -> None:
        configuration = settings.CONFIGURATION
        limits = configuration.RequestLimits
        self._application = application
        self._bodies = Bodies(seconds=limits.BodySeconds, room=LARGEST_BODIES * limits.MaxBatchBodyBytes)
        self._threads = Threads(configuration.Web.Threads, "request")
        self._alive = Threads(1, "health")
        self._send_seconds: float = configuration.Web.SendSeconds
        self._limits_sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if not self._limits_sending:  # granian listens only after it has loaded its application
            self._limits_sending = True
            limit_sending(self._send_seconds)
        environ = environ_of(scope)
        environ[ARRIVED_AT] = perf_counter()
        size = await self._bodies.receive(environ, receive)
        try:
            threads = self._alive if environ["PATH_INFO"] == ALIVE else self._threads
            answered = await _take_turn(threads, partial(answer, self._application, environ), receive)
            if answered is not None:
                await _send(answered, threads, receive, send)
        finally:
            self._bodies.release(size)


async def _take_turn(threads: Threads, job: Callable[[], Answer], receive: Receive) -> Answer | None:
    """Have the job done; None when the client went away before a thread was free for it."""
    future = threads.do(job)
    if threads.are_busy:
        gone = asyncio.ensure_future(_disconnected(receive))
        await asyncio.wait((future, gone), return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not future.done():
            future.cancel()
            return None
    return await future


async def _send(answered: Answer, threads: Threads, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": answered.status, "headers": answered.headers})
    blocks = answered.rest
    if blocks is None:
        await send({"type": "http.response.body", "body": answered.body, "more_body": False})
        return
    gone = asyncio.ensure_future(_disconnected(receive))
    block = answered.body
    try:
        while block and not gone.done():
            await send({"type": "http.response.body", "body": block, "more_body": True})  # until its reader takes it
            block = await threads.do(blocks.next)
    finally:
        gone.cancel()
        await threads.do(blocks.close)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
