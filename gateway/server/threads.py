"""The threads that answer requests: so many and no more, each with connections of its own to database and Redis."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

_Result = TypeVar("_Result")


class _Job(NamedTuple):
    do: Callable[[], Any]
    claimant: str
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


_Inbox = SimpleQueue[_Job]
"""Where one thread gets its next job."""


class Threads:
    """Does jobs for one event loop, at most `count` at once and `share` of them for one claimant.

    Claimants that wait take turns; the jobs of one are done in the order they come. A job goes to the thread that has
    worked last of those that have nothing to do: its memory and its connections are still near the processor. Where all
    took turns, half as many threads took a tenth less time for a read.

    No ThreadPoolExecutor: its futures and locks cost as much as the rest of the way (0.02 ms a request).
    """

    def __init__(self, count: int, name: str, *, share: int | None = None) -> None:
        self._count = count
        self._share = share or count
        self._name = name
        self._started = False
        # All are the event loop's: no thread looks at them.
        self._idle: list[_Inbox] = []
        self._at_work: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()

    @property
    def are_busy(self) -> bool:
        """Whether any job waits for its turn."""
        return bool(self._waiting)

    def do(self, job: Callable[[], _Result], claimant: str = "") -> "asyncio.Future[_Result]":
        """The result of a job to come. Cancelled before a thread took the job, it is not done."""
        if not self._started:  # with the first request, never before a fork
            self._started = True
            self._idle = [SimpleQueue() for _ in range(self._count)]
            for number, inbox in enumerate(self._idle):
                Thread(target=self._work, args=(inbox,), name=f"{self._name}-{number}", daemon=True).start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()
        ready = _Job(job, claimant, future, loop)
        if self._idle and self._at_work[claimant] < self._share:
            self._at_work[claimant] += 1
            self._idle.pop().put(ready)
        else:
            self._waiting.setdefault(claimant, deque()).append(ready)
        return future

    def _work(self, inbox: _Inbox) -> None:
        while True:
            job = inbox.get()
            result = error = None
            try:
                result = job.do()
            except BaseException as raised:  # noqa: BLE001 - it is raised where the result is awaited
                error = raised
            job.loop.call_soon_threadsafe(self._finish, inbox, job, result, error)
            del job, result, error  # nothing of a request is kept until the next one

    def _finish(self, inbox: _Inbox, job: _Job, result: Any, error: BaseException | None) -> None:
        self._at_work[job.claimant] -= 1
        if not self._at_work[job.claimant]:
            del self._at_work[job.claimant]
        self._idle.append(inbox)
        if self._waiting and (following := self._next()) is not None:
            self._at_work[following.claimant] += 1
            self._idle.pop().put(following)
        if job.future.cancelled():
            return
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)

    def _next(self) -> _Job | None:
        """The first job of whoever has waited longest for a turn, among the claimants with less than their share."""
        for claimant, jobs in list(self._waiting.items()):
            while jobs and jobs[0].future.cancelled():
                jobs.popleft()
            if not jobs:
                del self._waiting[claimant]
            elif self._at_work[claimant] < self._share:
                job = jobs.popleft()
                del self._waiting[claimant]
                if jobs:
                    self._waiting[claimant] = jobs  # behind the others
                return job
        return None
