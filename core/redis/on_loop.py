"""Commands to Redis from the event loop, on one connection.

One packet is under way at a time. Commands that come meanwhile go together in the next: each packet wakes Redis.
"""

from asyncio import AbstractEventLoop, TimerHandle, get_running_loop
from collections import deque
from collections.abc import Callable
from functools import partial
from ssl import SSLSocket, SSLWantReadError
from typing import Any, Final

from hiredis import PushNotification, Reader, ReplyError, pack_command
from redis import RedisError
from redis.connection import ConnectionInterface
from redis.exceptions import NoScriptError

from active_directory import Begun, Done, WouldBlock

_ANSWER_SECONDS: Final = 0.2
"""How long to wait for an answer on the loop. Whoever has waited so long has a thread wait."""
_PAUSE_SECONDS: Final = 1.0
_BLOCK: Final = 65_536
_LOST: Final = object()


def packed(*words: str | bytes) -> bytes:
    """A command as it is sent."""
    command: Any = pack_command(words)  # type: ignore[arg-type]  # it takes any number of words
    return bytes(command)


class RedisOnLoop:
    """`make_connection` makes redis-py's connections, which knows how to reach Redis; the rest is done here."""

    def __init__(self, make_connection: Callable[[], ConnectionInterface]) -> None:
        self._make_connection = make_connection
        self._loop: AbstractEventLoop | None = None
        self._connection: Any = None
        self._is_connecting = False
        self._unsent: list[tuple[bytes, Done[Any]]] = []
        self._waiting: deque[Done[Any]] = deque()
        self._timer: TimerHandle | None = None

    def begin(self, command: bytes) -> Callable[[], Any]:
        """Send a packed command; return a function that waits for its answer. Both raise WouldBlock if none comes soon.

        The function also raises NoScriptError.
        """
        loop = get_running_loop()
        if self._loop is not loop:
            self._drop()
            self._loop, self._is_connecting = loop, False
        if self._connection is None:
            if not self._is_connecting:
                self._is_connecting = True
                self._task = loop.create_task(self._connect(loop))
            raise WouldBlock
        return partial(self._end, Begun(partial(self._enqueue, command)))

    @staticmethod
    def _end(begun: Begun[Any]) -> Any:
        answer = begun.wait()
        if isinstance(answer, ReplyError) and str(answer).startswith("NOSCRIPT"):
            raise NoScriptError(str(answer))
        if answer is _LOST or isinstance(answer, ReplyError):
            raise WouldBlock
        return answer

    def _enqueue(self, command: bytes, done: Done[Any]) -> None:
        if not self._unsent and not self._waiting and self._loop is not None:
            self._loop.call_soon(self._send)  # with all that this turn of the loop brings
        self._unsent.append((command, done))

    def _send(self) -> None:
        if self._connection is None or self._loop is None or not self._unsent:
            return
        octets = b"".join(command for command, _ in self._unsent)
        self._waiting.extend(done for _, done in self._unsent)
        self._unsent = []
        try:
            is_sent = self._connection._sock.send(octets) == len(octets)
        except OSError:
            is_sent = False
        if not is_sent:  # Redis has not taken what was sent before, or is gone
            self._drop()
        else:
            self._timer = self._loop.call_later(_ANSWER_SECONDS, self._drop)

    def _readable(self) -> None:
        answers = []
        try:
            while True:
                octets = self._connection._sock.recv(_BLOCK)
                if not octets:
                    self._drop()
                    return
                self._reader.feed(octets)
                while (answer := self._reader.gets(False)) is not False:
                    if not isinstance(answer, PushNotification):
                        answers.append(answer)
                if len(octets) < _BLOCK and not self._is_encrypted:
                    break
        except (BlockingIOError, SSLWantReadError):
            pass
        except OSError:
            self._drop()
            return
        if answers and self._timer is not None and self._loop is not None:
            self._timer.cancel()
            self._timer = None
            answered = [self._waiting.popleft() for _ in answers]
            if self._waiting:
                self._timer = self._loop.call_later(_ANSWER_SECONDS, self._drop)
            else:
                self._send()
            for done, answer in zip(answered, answers, strict=True):
                done(answer)

    async def _connect(self, loop: AbstractEventLoop) -> None:
        try:
            connection: Any = self._make_connection()
            await loop.run_in_executor(None, connection.connect)
        except (RedisError, OSError):
            loop.call_later(_PAUSE_SECONDS, setattr, self, "_is_connecting", False)
            return
        connection._sock.setblocking(False)
        self._reader = Reader()
        self._is_encrypted = isinstance(connection._sock, SSLSocket)
        self._connection, self._is_connecting = connection, False
        loop.add_reader(connection._sock.fileno(), self._readable)

    def _drop(self) -> None:
        """Close the connection; those who wait for it have a thread wait."""
        connection, self._connection = self._connection, None
        waiting = [*self._waiting, *(done for _, done in self._unsent)]
        self._waiting, self._unsent = deque(), []
        loop, is_open = self._loop, self._loop is not None and not self._loop.is_closed()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if connection is not None:
            if loop is not None and is_open:
                loop.remove_reader(connection._sock.fileno())
            connection.disconnect()
        if loop is not None and is_open:
            for done in waiting:
                loop.call_soon(done, _LOST)
