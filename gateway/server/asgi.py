"""The ASGI application that granian serves. It receives a whole request before it gives it to a thread.

Reads that need no thread are answered on the event loop (`StraightWay.answer_on_loop`).

So no thread waits for a client: granian receives the headers, at a few kilobytes per connection, `requests` receives
the body, and a streamed answer is made block by block (`Blocks`): a thread makes one block and serves other requests
until the client has taken it.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any

from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.core.signals import request_started
from django.http import HttpResponseBase

from core.deadlines import Deadline, current_deadline
from gateway.middleware.request_id import ARRIVED_AT
from gateway.server.requests import Bodies, Environ, Receive, Scope, environ_of
from gateway.server.straight import StraightWay
from gateway.server.threads import Claimants, Threads

HEALTH_PATH = "/health"
"""This path has a thread of its own, so that a process whose other threads are all busy still counts as alive."""

LARGEST_BODIES_IN_MEMORY = 16
"""How many bodies of the largest size fit into the memory for bodies."""

DISCONNECT_CHECK_SECONDS = 1.0
"""How long an answer may take before the server watches whether its client is still connected."""

Send = Callable[[dict[str, Any]], Awaitable[None]]
RunInTurn = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a job when it is its claimant's turn."""

BLOCK_SIZE = 65_536
"""Bytes. A file is sent in blocks of about this size."""

Application = Callable[[Environ], HttpResponseBase]
Header = tuple[bytes, bytes]


class Blocks:
    """The blocks of a streamed answer: each one is made when the client has taken the one before.

    Calls may come from different threads; all run in the request's context. The caller has to close it.
    """

    def __init__(self, response: HttpResponseBase, *, gathered: bool) -> None:
        self._response = response
        self._iterator: Iterator[bytes] = iter(response)
        self._gathered = gathered
        self._context: Context = copy_context()

    def next(self) -> bytes:
        """Return the next block; an empty one is the end."""
        return self._context.run(self._next)

    def _next(self) -> bytes:
        parts, size = [], 0
        for part in self._iterator:
            parts.append(part)
            size += len(part)
            if size and not (self._gathered and size < BLOCK_SIZE):
                break
        return b"".join(parts)

    def close(self) -> None:
        """Close the response, whether it was sent to its end or not."""
        self._context.run(self._response.close)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its whole body, or with the first block and the rest of a stream."""

    status: int
    headers: list[Header]
    body: bytes
    rest: Blocks | None


def answer_request(
    application: Application, environ: Environ, deadline: Deadline, *, straight_way: StraightWay | None = None
) -> Answer:
    """Return the answer to a request whose body has arrived: the straight way's, else the application's."""
    deadline.has_begun = True
    current_deadline.set(deadline)  # threads are reused: replace the deadline of the last request
    if straight_way is not None and (straight := straight_way.answer(environ)) is not None:
        return Answer(*straight, None)
    response = application(environ)
    status, headers = response.status_code, _headers(response)
    if not response.streaming:
        body: bytes = response.content  # type: ignore[attr-defined]  # the stubs know it of HttpResponse alone
        response.close()
        return Answer(status, headers, body, None)
    # Content with a length is a file that is complete already, so small parts are gathered into one block.
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


class RequestGateway:
    """Serves an application with the configured threads and limits."""

    def __init__(self, application: Application) -> None:
        configuration = settings.CONFIGURATION
        limits = configuration.RequestLimits
        self._application = application
        self._bodies = Bodies(seconds=limits.BodySeconds, capacity=LARGEST_BODIES_IN_MEMORY * limits.MaxBatchBodyBytes)
        web = configuration.Web
        self._threads = Threads(web.Threads, "request", share=web.ThreadsPerCredential or max(1, web.Threads // 2))
        self._health_threads = Threads(1, "health")
        self._claimants = Claimants()
        self._straight_way = StraightWay()
        self._send_seconds: float = web.SendSeconds
        self._request_seconds: float = web.RequestSeconds
        self._has_limited_sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if not self._has_limited_sending:  # granian listens only after it has loaded its application
            self._has_limited_sending = True
            limit_send_time(self._send_seconds)
        environ = environ_of(scope)
        environ[ARRIVED_AT] = perf_counter()
        size = await self._bodies.receive(environ, receive)
        try:
            straight = await self._straight_way.answer_on_loop(environ)
            if straight is not None:
                await _send_whole(send, *straight)
                return
            threads = self._health_threads if environ["PATH_INFO"] == HEALTH_PATH else self._threads
            run_in_turn = partial(threads.do, claimant=self._claimants.find(environ))
            deadline = Deadline(time.monotonic() + self._request_seconds)
            job = partial(answer_request, self._application, environ, deadline, straight_way=self._straight_way)
            answering = asyncio.ensure_future(run_in_turn(job))
            answered = await _await_answer(answering, deadline, receive, at_once=threads.are_busy)
            if answered is not None:
                self._claimants.remember_session(environ)
                await _send(answered, run_in_turn, receive, send)
        finally:
            self._bodies.release(size)


async def _await_answer(
    future: "asyncio.Future[Answer]", deadline: Deadline, receive: Receive, *, at_once: bool
) -> Answer | None:
    """Return the answer, or None if the client disconnected before a thread was free.

    Work that has begun continues, and its deadline notes the disconnection. The connection is watched once the answer
    takes a while, or `at_once`.
    """
    if not at_once:
        await asyncio.wait((future,), timeout=DISCONNECT_CHECK_SECONDS)
        if future.done():
            return await future
    gone = asyncio.ensure_future(_disconnected(receive))
    await asyncio.wait((future, gone), return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if not future.done():
        if not deadline.has_begun:
            future.cancel()
            return None
        deadline.is_client_gone = True
    return await future


async def _send_whole(send: Send, status: int, headers: list[Header], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _send(answered: Answer, run_in_turn: RunInTurn, receive: Receive, send: Send) -> None:
    blocks = answered.rest
    if blocks is None:
        await _send_whole(send, answered.status, answered.headers, answered.body)
        return
    await send({"type": "http.response.start", "status": answered.status, "headers": answered.headers})
    gone = asyncio.ensure_future(_disconnected(receive))
    block = answered.body
    try:
        while block and not gone.done():
            await send({"type": "http.response.body", "body": block, "more_body": True})  # until its reader takes it
            block = await run_in_turn(blocks.next)
    finally:
        gone.cancel()
        await run_in_turn(blocks.close)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


def limit_send_time(seconds: float) -> None:
    """Let the kernel close new connections whose client acknowledges nothing that it is sent for `seconds`.

    An application can neither see nor close the connection of an answer that it has given, so a client that never reads
    would keep it open for ever. Connections inherit the TCP_USER_TIMEOUT (tcp(7)) of their listening socket.
    """
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        # Close no copy of it either: if it is a file's, this process would lose all its locks on that file (fcntl(2)),
        # and the other users of an SQLite database would take it for unused.
        try:
            listener = socket.socket(fileno=descriptor)
        except OSError:  # not a socket, or closed by now
            continue
        is_internet = listener.family in (socket.AF_INET, socket.AF_INET6)
        if is_internet and listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))
        listener.detach()


class DjangoApplication(BaseHandler):
    """Django's middleware and views; returns the response itself instead of calling WSGI's start_response."""

    def __init__(self) -> None:
        super().__init__()
        self.load_middleware()

    def __call__(self, environ: Environ) -> HttpResponseBase:
        """Return the response to a request; the caller has to close it."""
        request_started.send(sender=type(self), environ=environ)
        return self.get_response(WSGIRequest(environ))
