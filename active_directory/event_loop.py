"""Synchronous code on the event loop: it runs in a greenlet, which leaves the loop to others while it waits.

So the code that a thread runs for a request can be run without one, and stays one code. All that it may wait for is
`wait_for`. Whatever else waits (for a server, or for another thread) calls `require_thread` first: then it raises
WouldBlock here, and a server that does not answer holds up nobody.
"""

from asyncio import get_running_loop
from collections.abc import Callable
from typing import TypeVar

from greenlet import getcurrent, greenlet

_Result = TypeVar("_Result")
Done = Callable[[_Result], object]
"""Takes what somebody waits for. It is called once, by the loop itself: `loop.call_soon` where other code runs."""


class WouldBlock(BaseException):
    """This would hold up the event loop; a thread has to do it. No Exception, so that nobody takes it for a failure."""


class _OnLoop(greenlet):
    """A greenlet that runs on the event loop."""


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

    def run() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - whoever awaits it gets it
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(result)

    _OnLoop(run).switch()
    result: _Result = await done
    return result


def wait_for(begin: Callable[[Done[_Result]], object]) -> _Result:
    """Begin something and leave the loop to others until it is done; return what `Done` was called with."""
    here = getcurrent()
    begin(here.switch)
    assert here.parent is not None
    result: _Result = here.parent.switch()
    return result
