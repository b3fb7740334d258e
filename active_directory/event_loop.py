"""Synchronous code on the event loop: it runs in a greenlet, which leaves the loop to others while it waits.

So the code that a thread runs for a request can be run without one, and stays one code. All that it may wait for is
`wait_for`. Whatever else waits (for a server, or for another thread) calls `require_thread` first: then it raises
WouldBlock here, and a server that does not answer holds up nobody.
"""

import threading
from asyncio import Future, get_running_loop
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

_Result = TypeVar("_Result")
Done = Callable[[_Result], object]
"""Takes what somebody waits for. It is called once, by the loop itself: `loop.call_soon` where other code runs."""


class WouldBlock(BaseException):
    """This would hold up the event loop; a thread has to do it. No Exception, so that nobody takes it for a failure."""


class _OnLoop(greenlet):
    """A greenlet that runs functions on the event loop, one after another: a new one for each would cost 15 µs."""

    condition: Callable[[], object] | None = None
    _answers = 0
    """How often it has got what it waited for."""

    def next_answer(self) -> "Done[Any]":
        """A function that gives it what it waits for now. A second call does nothing: it may serve another by then."""
        return partial(self._answer, self._answers)

    def _answer(self, answers_before: int, result: Any) -> None:
        if answers_before == self._answers:
            self._answers += 1
            self.switch(result)

    def run(self, *job: Any) -> None:
        while True:
            _perform(*job)
            self.condition = None
            _idle.greenlets.append(self)
            assert self.parent is not None
            del job  # it holds a whole request
            job = self.parent.switch()


def _perform(function: Callable[[], Any], done: "Future[Any]") -> None:
    try:
        result = function()
    except GreenletExit:  # its thread has ended
        raise
    except BaseException as error:  # noqa: BLE001 - whoever awaits it gets it
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(result)


class _Idle(threading.local):
    """The greenlets of a thread that have nothing to run."""

    def __init__(self) -> None:
        self.greenlets: list[_OnLoop] = []


_idle = _Idle()


def is_on_loop() -> bool:
    """Whether this code may not wait but with `wait_for`."""
    return type(getcurrent()) is _OnLoop


def require_thread() -> None:
    """Raise WouldBlock on the event loop."""
    if type(getcurrent()) is _OnLoop:
        raise WouldBlock


async def run_on_loop(function: Callable[[], _Result]) -> _Result:
    """Run a synchronous function on the event loop, with context variables of its own; raises what it raises."""
    done = get_running_loop().create_future()
    free = _idle.greenlets.pop() if _idle.greenlets else _OnLoop()
    free.gr_context = None
    free.switch(function, done)
    result: _Result = await done
    return result


def wait_for(begin: Callable[[Done[_Result]], object]) -> _Result:
    """Begin something and leave the loop to others until it is done; return what `Done` was called with."""
    here = getcurrent()
    assert type(here) is _OnLoop
    assert here.parent is not None
    begin(here.next_answer())
    result: _Result = here.parent.switch()
    require_condition()
    return result


def set_condition(condition: Callable[[], object]) -> None:
    """Let what this code waits for next be used only once `condition` has returned, which may wait, too, or raise.

    So something may be asked for already while it is not yet known whether it may be.
    """
    here = getcurrent()
    assert type(here) is _OnLoop
    here.condition = condition


def require_condition() -> None:
    """Wait for the condition now, if there is one that nobody has waited for."""
    here = getcurrent()
    if type(here) is _OnLoop and here.condition is not None:
        condition, here.condition = here.condition, None
        condition()


class Begun(Generic[_Result]):
    """Something that was begun on the event loop, to be waited for later."""

    def __init__(self, begin: Callable[[Done[_Result]], object]) -> None:
        self._results: list[_Result] = []
        self._waiting: Done[_Result] | None = None
        begin(self._end)

    def _end(self, result: _Result) -> None:
        self._results.append(result)
        if self._waiting is not None:
            self._waiting(result)

    def wait(self) -> _Result:
        """What it gave."""
        return self._results[0] if self._results else wait_for(partial(setattr, self, "_waiting"))
