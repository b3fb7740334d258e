"""The ASGI application that granian serves. It takes a request in whole, and only then has a thread answer it.

So nothing scarce waits for a client: not while its headers arrive (that is granian's, for which a connection costs a
few kilobytes), not while its body does (`bodies`), and not while it reads an answer that is made as it is sent
(`answers`): a thread makes one block and goes on to other requests until the reader has taken it.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

from django.conf import settings

from core.deadlines import Deadline
from gateway.middleware.request_id import ARRIVED_AT
from gateway.server.answers import Answer, Application, answer
from gateway.server.bodies import Bodies, Receive
from gateway.server.claimants import Claimants
from gateway.server.environ import Scope, environ_of
from gateway.server.sockets import limit_sending
from gateway.server.threads import Threads

ALIVE: Final = "/health"
"""Has a thread of its own: a process whose other threads are all busy is still alive."""

LARGEST_BODIES: Final = 16
"""How many of the largest bodies fit into the memory for bodies."""

PATIENCE: Final = 1.0
"""Seconds after which the server looks whether a client that waits for its answer is still there."""

Send = Callable[[dict[str, Any]], Awaitable[None]]
Turn = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Has a job done when it is its claimant's turn."""


class RequestGateway:
    """Serves one application, with threads and limits as configured."""

    def __init__(self, application: Application) -> None:
        configuration = settings.CONFIGURATION
        limits = configuration.RequestLimits
        self._application = application
        self._bodies = Bodies(seconds=limits.BodySeconds, room=LARGEST_BODIES * limits.MaxBatchBodyBytes)
        web = configuration.Web
        self._threads = Threads(web.Threads, "request", share=web.ThreadsPerCredential or max(1, web.Threads // 2))
        self._alive = Threads(1, "health")
        self._claimants = Claimants()
        self._send_seconds: float = web.SendSeconds
        self._request_seconds: float = web.RequestSeconds
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
            turn = partial(threads.do, claimant=self._claimants.find(environ))
            deadline = Deadline(time.monotonic() + self._request_seconds)
            job = partial(answer, self._application, environ, deadline)
            answering = asyncio.ensure_future(turn(job))
            answered = await _await_answer(answering, deadline, receive, at_once=threads.are_busy)
            if answered is not None:
                self._claimants.learn(environ)
                await _send(answered, turn, receive, send)
        finally:
            self._bodies.release(size)


async def _await_answer(
    future: "asyncio.Future[Answer]", deadline: Deadline, receive: Receive, *, at_once: bool
) -> Answer | None:
    """The answer; None when the client went away before a thread was free. Work that has begun is told so instead.

    The client is looked for once the answer takes a while, or `at_once`.
    """
    if not at_once:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                return await asyncio.shield(future)
    gone = asyncio.ensure_future(_disconnected(receive))
    await asyncio.wait((future, gone), return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if not future.done():
        if not deadline.has_begun:
            future.cancel()
            return None
        deadline.is_client_gone = True
    return await future


async def _send(answered: Answer, turn: Turn, receive: Receive, send: Send) -> None:
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
            block = await turn(blocks.next)
    finally:
        gone.cancel()
        await turn(blocks.close)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
