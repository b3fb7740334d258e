"""Synchronous code on the event loop: one greenlet serves many, and nothing of one reaches the next."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest
import uvloop
from greenlet import getcurrent

from active_directory import Done, WouldBlock, require_condition, run_on_loop, set_condition, wait_for

_told: ContextVar[str | None] = ContextVar("told", default=None)


def run(main: Callable[[], Awaitable[Any]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(main(), 60))


def test_a_greenlet_serves_one_after_the_other_with_context_variables_of_its_own() -> None:
    def work() -> tuple[object, str | None]:
        before = _told.get()
        _told.set("a secret")
        return getcurrent(), before

    async def main() -> None:
        _told.set("of the caller")
        (first, before), (second, later) = await run_on_loop(work), await run_on_loop(work)
        assert first is second
        assert (before, later) == (None, None)
        assert _told.get() == "of the caller"

    run(main)


def test_an_answer_that_comes_again_reaches_nobody_else() -> None:
    waiting: list[Done[str]] = []

    def work() -> tuple[object, str]:
        return getcurrent(), wait_for(waiting.append)

    async def main() -> None:
        first = asyncio.ensure_future(run_on_loop(work))
        await asyncio.sleep(0)
        waiting[0]("first")
        served, answer = await first
        assert answer == "first"
        second = asyncio.ensure_future(run_on_loop(work))
        await asyncio.sleep(0)
        waiting[0]("first, again")
        waiting[1]("second")
        assert await second == (served, "second")
        waiting[1]("second, while nobody waits")
        third = asyncio.ensure_future(run_on_loop(work))
        await asyncio.sleep(0)
        waiting[2]("third")
        assert await third == (served, "third")

    run(main)


def test_a_condition_ends_with_what_it_was_for() -> None:
    asked: list[str] = []

    def condition() -> None:
        asked.append("asked")

    async def main() -> None:
        await run_on_loop(lambda: set_condition(condition))
        await run_on_loop(require_condition)
        assert asked == []

    run(main)


def test_what_fails_leaves_its_greenlet_to_others() -> None:
    def fail() -> None:
        raise WouldBlock

    async def main() -> None:
        first = await run_on_loop(getcurrent)
        with pytest.raises(WouldBlock):
            await run_on_loop(fail)
        assert await run_on_loop(getcurrent) is first

    run(main)
