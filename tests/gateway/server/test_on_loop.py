"""Reads on the event loop, without threads: the same code, which never waits there but for what the loop watches."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import Any

import pytest
import uvloop
from django.db import connection as database
from redis import Redis

from active_directory import coalesced_reads
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.configuration_sections import RateLimit
from core.database import on_loop as database_on_loop
from core.redis import on_loop as redis_on_loop
from gateway.middleware import rate_limit
from gateway.middleware.rate_limit import COUNTED
from gateway.server import straight
from gateway.server.asgi import Answer
from keys.permissions import cache
from lab.directory import Directory
from lab.domain import Domain
from lab.redis import RedisServer
from tests.gateway.server.test_every_operation import Requests
from tests.gateway.server.test_straight import CHANGES, OF_ONE_ANSWER, BothWays, counted_calls, end, names_and_values
from tests.support.cast import Integration, make_connection, make_integration
from tests.support.configuration import Configure

CALLS = 450
"""Of functions, Python's and C's, for one read: without a clock, so that a busy machine does not matter."""
ON_LOOP = frozenset({"computers.read", "contacts.read", "users.read"})
"""The reads that need no thread once the caches are warm."""


class Loop:
    """Sends requests to the loop, and in threads those that it leaves to them."""

    def __init__(self, ways: BothWays) -> None:
        self.ways = ways

    async def answer(self, path: str, **headers: str) -> Answer | None:
        answer = await self.ways.straight_way.answer_on_loop(self.ways.environ(path, "GET", headers))
        return None if answer is None else Answer(*answer, None)

    async def in_thread(self, path: str, **headers: str) -> Answer | None:
        def ask() -> Answer | None:
            try:
                return self.ways.straight(path, **headers)
            finally:
                database.close()

        return await asyncio.to_thread(ask)

    async def until_answered(self, path: str, **headers: str) -> Answer:
        """As often as the loop leaves it to a thread, which then warms the caches."""
        while (answer := await self.answer(path, **headers)) is None:
            assert await self.in_thread(path, **headers) is not None, path
        return answer


@pytest.fixture
def loop(transactional_db: None) -> Loop:
    return Loop(BothWays())


@pytest.fixture
def integration(transactional_db: None, domain: Domain) -> Integration:
    return make_integration(make_connection(domain))


@pytest.fixture
def path(directory: Directory, organizational_unit: str) -> str:
    return f"/api/ad/users/{directory.add_user('Ada', parent=organizational_unit)}"


def run(main: Callable[[], Awaitable[Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DJANGO_ALLOW_ASYNC_UNSAFE", raising=False)  # tests with a browser set it
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # the loop that granian runs
            runner.run(asyncio.wait_for(main(), 300))


@pytest.mark.sqlite
def test_the_loop_answers_every_read_as_the_general_way_does_or_not_at_all(
    integration: Integration, directory: Directory, organizational_unit: str, loop: Loop
) -> None:
    headers = {"X_API_Key": integration.value}
    requests = dict(Requests(integration, directory, organizational_unit).all())
    reads = {name: path for name, (method, path, _) in requests.items() if method == "GET"}

    async def main() -> None:
        for name, path in reads.items():
            answer = await (loop.until_answered if name in ON_LOOP else loop.answer)(path, **headers)
            if answer is not None:
                same = await asyncio.to_thread(_and_close, partial(loop.ways.compare, path, **headers))
                assert (answer.status, names_and_values(answer)) == (same.status, names_and_values(same)), name
                assert OF_ONE_ANSWER.sub(b"", answer.body) == OF_ONE_ANSWER.sub(b"", same.body), name

    run(main)


@pytest.mark.sqlite
def test_confined_keys_need_no_thread_for_what_is_inside(
    domain: Domain, directory: Directory, organizational_unit: str, loop: Loop, patient: None
) -> None:
    inner, outer = (directory.add_unit(name, parent=organizational_unit) for name in ("Inner", "Outer"))
    manager = directory.add_user("Bob", parent=outer)
    ada = directory.add_user("Ada", parent=inner, manager=directory.dn(manager))
    confined = make_integration(make_connection(domain), scopes=[directory.guid(inner)])
    headers = {"X_API_Key": confined.value}

    async def main() -> None:
        for path in (f"/api/ad/users/{ada}", f"/api/ad/users/{ada}?attributes=manager"):
            answer = await loop.until_answered(path, **headers)
            same = await asyncio.to_thread(_and_close, partial(loop.ways.compare, path, **headers))
            assert answer.body == same.body
            assert json.loads(answer.body)["attributes"]["manager"] == []
        assert await loop.answer(f"/api/ad/users/{manager}", **headers) is None
        directory.connection.rename_s(inner, "OU=Moved")
        assert b"OU=Moved" in (await loop.until_answered(path, **headers)).body

    run(main)


@pytest.mark.sqlite
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_access_counts_at_the_next_read_on_the_loop(
    integration: Integration, path: str, loop: Loop, change: str
) -> None:
    headers = {"X_API_Key": integration.value}

    async def main() -> None:
        await loop.until_answered(path, **headers)
        await asyncio.to_thread(_and_close, lambda: end(integration, change))
        for _ in range(3):
            assert await loop.answer(path, **headers) is None
            assert await loop.in_thread(path, **headers) is None

    run(main)


def test_a_read_on_the_loop_counts_once(
    integration: Integration, path: str, loop: Loop, configure: Configure, limited: None, patient: None
) -> None:
    configure("RateLimiting", Enabled=True, Global=RateLimit(Requests=1000, WindowSeconds=600))
    loop.ways = BothWays()
    headers = {"X_API_Key": integration.value}

    async def left() -> int:
        answer = await loop.until_answered(path, **headers)
        return int(dict(answer.headers)[b"RateLimit"].split(b";r=")[1].split(b";")[0])

    async def main() -> None:
        await left()
        before = await left()
        answers = await asyncio.gather(*(loop.answer(path, **headers) for _ in range(10)))
        assert None not in answers
        assert await left() == before - 11

    run(main)


@pytest.mark.sqlite
def test_a_read_beyond_its_limit_is_neither_answered_nor_recorded(
    integration: Integration,
    path: str,
    loop: Loop,
    configure: Configure,
    limited: None,
    patient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate_limit, "_FAR", 0)  # nothing is counted first
    configure("RateLimiting", Enabled=True, Global=RateLimit(Requests=100, WindowSeconds=600))
    loop.ways = BothWays()
    headers = {"X_API_Key": integration.value}

    def recorded() -> int:
        assert reads.flush()
        return OperationRecord.objects.count()

    async def is_refused() -> bool:
        environ = loop.ways.environ(path, "GET", headers)
        answer = await loop.ways.straight_way.answer_on_loop(environ)
        if COUNTED not in environ or not environ[COUNTED].exceeded:
            return False
        assert answer is None
        return True

    async def main() -> None:
        await loop.until_answered(path, **headers)
        while not await is_refused():
            await loop.in_thread(path, **headers)
        before = await asyncio.to_thread(_and_close, recorded)
        while not await is_refused():
            pass
        refused = await asyncio.to_thread(_and_close, lambda: loop.ways.general(path, **headers))
        assert refused.status == 429
        assert await asyncio.to_thread(_and_close, recorded) == before

    run(main)


@pytest.mark.sqlite
@pytest.mark.parametrize("is_refused", [True, False])
def test_a_restarted_redis_that_lost_the_script_keeps_nothing_from_being_answered(
    integration: Integration,
    path: str,
    loop: Loop,
    is_refused: bool,
    redis_server: RedisServer,
    configure: Configure,
    limited: None,
    patient: None,
) -> None:
    configure("RateLimiting", Enabled=True, Global=RateLimit(Requests=1000, WindowSeconds=600))
    loop.ways = BothWays()
    headers = {"X_API_Key": integration.value}

    async def main() -> None:
        await loop.until_answered(path, **headers)
        with Redis.from_url(redis_server.url) as redis:
            redis.script_flush()
        asked = {"X_API_Key": integration.value[:-1]} if is_refused else headers
        assert await loop.answer(path, **asked) is None
        await loop.until_answered(path, **headers)

    run(main)


@pytest.mark.sqlite
@pytest.mark.parametrize("is_far_below", [True, False])
def test_the_directory_is_asked_while_a_client_far_below_its_limits_is_counted(
    integration: Integration,
    path: str,
    loop: Loop,
    is_far_below: bool,
    redis_server: RedisServer,
    configure: Configure,
    limited: None,
    patient: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if database.vendor != "sqlite":
        pytest.skip("on PostgreSQL the count is there before the state of access")
    monkeypatch.setattr(rate_limit, "_FAR", 10 if is_far_below else 10_000)
    configure("RateLimiting", Enabled=True, Global=RateLimit(Requests=1000, WindowSeconds=600))
    loop.ways = BothWays()
    headers = {"X_API_Key": integration.value}
    asked = asyncio.Event()
    send = coalesced_reads._Search.send

    def note(search: Any, *how: Any) -> None:
        asked.set()
        send(search, *how)

    async def main() -> None:
        await loop.until_answered(path, **headers)
        monkeypatch.setattr(coalesced_reads._Search, "send", note)
        redis_server.pause()
        try:
            answering = asyncio.ensure_future(loop.answer(path, **headers))
            if is_far_below:
                await asyncio.wait_for(asked.wait(), 60)
            await asyncio.sleep(0.1)
            assert not answering.done()
            assert asked.is_set() == is_far_below
        finally:
            redis_server.resume()
        assert await answering is not None

    run(main)


def test_what_comes_beside_many_reads_goes_to_the_threads(
    integration: Integration, path: str, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(straight, "_AT_ONCE", 3)
    headers = {"X_API_Key": integration.value}

    async def main() -> None:
        await loop.until_answered(path, **headers)
        answers = await asyncio.gather(*(loop.answer(path, **headers) for _ in range(5)))
        assert [answer is None for answer in answers] == [False, False, False, True, True]
        await loop.until_answered(path, **headers)

    run(main)


def test_a_read_on_the_loop_makes_few_calls(integration: Integration, path: str, loop: Loop, patient: None) -> None:
    headers = {"X_API_Key": integration.value}

    async def main() -> None:
        fewest = CALLS
        for _ in range(10):
            await loop.until_answered(path, **headers)
            environ = loop.ways.environ(path, "GET", headers)
            with counted_calls() as calls:
                answer = await loop.ways.straight_way.answer_on_loop(environ)
            if answer is not None:
                fewest = min(fewest, sum(calls.values()))
        assert fewest < CALLS

    run(main)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No read is left to a thread because the machine is busy."""
    for module in (coalesced_reads, database_on_loop, redis_on_loop):
        monkeypatch.setattr(module, "_ANSWER_SECONDS", 60.0)


@pytest.fixture
def servers(domain: Domain, redis_server: RedisServer) -> dict[str, Any]:
    return {"domain controller": domain.controller, "Redis": redis_server, "PostgreSQL": _Backend()}


class _Backend:
    """The process of PostgreSQL that serves the loop."""

    def pause(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    @cached_property
    def _pid(self) -> int:
        asked: Any = cache._on_loop._database
        pid: int = asked._link.backend_pid
        return pid


@pytest.mark.parametrize("silent", ["domain controller", "Redis", "PostgreSQL"])
def test_a_silent_server_does_not_hold_up_the_loop(
    integration: Integration,
    path: str,
    loop: Loop,
    silent: str,
    servers: dict[str, Any],
    configure: Configure,
    limited: None,
) -> None:
    headers = {"X_API_Key": integration.value}
    loop.ways = BothWays()

    async def main() -> None:
        await loop.until_answered(path, **headers)
        servers[silent].pause()
        try:
            asked = asyncio.gather(*(loop.answer(path, **headers) for _ in range(5)))
            turns = 0
            while not asked.done():
                await asyncio.sleep(0)
                turns += 1
            assert asked.result() == [None] * 5
            assert turns > 10
        finally:
            servers[silent].resume()
        await loop.until_answered(path, **headers)

    run(main)


def _and_close(do: Callable[[], Any]) -> Any:
    try:
        return do()
    finally:
        database.close()
