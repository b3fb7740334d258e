"""Redis from the event loop, against a peer that answers when the test says so."""

import asyncio
import select
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis import ConnectionError as ConnectionLost

from active_directory import WouldBlock, run_on_loop
from core.redis import on_loop
from core.redis.on_loop import RedisOnLoop, packed


class Peer:
    """A connection as redis-py makes it, and its other end."""

    def __init__(self) -> None:
        self._sock, self.redis = socket.socketpair()

    def connect(self) -> None:
        """It is connected."""

    def disconnect(self) -> None:
        self._sock.close()


@pytest.fixture
def peer() -> Peer:
    return Peer()


async def connected(peer: Peer) -> RedisOnLoop:
    client = RedisOnLoop(lambda: peer)  # type: ignore[arg-type,return-value]  # all that is used of a connection
    while client._connection is None:
        with pytest.raises(WouldBlock):
            await run_on_loop(lambda: client.begin(packed("PING")))
        await asyncio.sleep(0.01)
    return client


def ask(client: RedisOnLoop, *words: str) -> "asyncio.Future[Any]":
    def answer() -> Any:
        return client.begin(packed(*words))()

    return asyncio.ensure_future(run_on_loop(answer))


def run(main: Callable[[], Awaitable[Any]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 60))


def test_answers_come_in_the_order_of_the_commands(peer: Peer) -> None:
    async def main() -> None:
        client = await connected(peer)
        first, second = ask(client, "GET", "a"), ask(client, "GET", "b")
        await asyncio.sleep(0.01)
        assert peer.redis.recv(1000) == b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n"
        peer.redis.send(b"$1\r\n1\r\n$1\r\n")
        assert await first == b"1"
        peer.redis.send(b"2\r\n")
        assert await second == b"2"
        assert client._timer is None

    run(main)


def test_an_answer_gives_those_behind_it_their_time_again(peer: Peer) -> None:
    """Otherwise a busy connection, on which somebody always waits, would be given up."""

    async def main() -> None:
        client = await connected(peer)
        first, second = ask(client, "GET", "a"), ask(client, "GET", "b")
        await asyncio.sleep(0.01)
        before = client._timer
        assert before is not None
        peer.redis.send(b"$1\r\n1\r\n")
        await first
        assert before.cancelled()
        assert client._timer is not None
        with pytest.raises(WouldBlock):
            await second
        assert client._connection is None

    run(main)


def test_commands_that_come_while_a_packet_is_under_way_go_together_in_the_next(peer: Peer) -> None:
    async def main() -> None:
        client = await connected(peer)
        first = ask(client, "GET", "a")
        await asyncio.sleep(0.01)
        assert peer.redis.recv(1000) == b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
        second, third = ask(client, "GET", "b"), ask(client, "GET", "c")
        await asyncio.sleep(0.01)
        assert select.select([peer.redis], [], [], 0) == ([], [], [])
        peer.redis.send(b"$1\r\n1\r\n")
        assert await first == b"1"
        assert peer.redis.recv(1000) == b"*2\r\n$3\r\nGET\r\n$1\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\nc\r\n"
        peer.redis.send(b"$1\r\n2\r\n$1\r\n3\r\n")
        assert (await second, await third) == (b"2", b"3")
        assert client._timer is None

    run(main)


def test_a_lost_connection_leaves_no_timer_behind(peer: Peer) -> None:
    async def main() -> None:
        client = await connected(peer)
        peer._sock.shutdown(socket.SHUT_WR)
        with pytest.raises(WouldBlock):
            await ask(client, "GET", "a")
        assert (client._connection, client._timer) == (None, None)

    run(main)


def test_a_connection_that_could_not_be_made_is_made_later(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_loop, "_PAUSE_SECONDS", 0.01)
    failures = [ConnectionLost("too many"), ConnectionLost("too many")]

    def make() -> Any:
        if failures:
            raise failures.pop()
        return peer

    async def main() -> None:
        client = RedisOnLoop(make)
        while client._connection is None:
            with pytest.raises(WouldBlock):
                await run_on_loop(lambda: client.begin(packed("PING")))
            await asyncio.sleep(0.01)

    run(main)
