"""The threads that answer requests: so many and no more, each with connections of its own to database and Redis."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Result = TypeVar("_Result")


class Threads:
    """Does jobs for one event loop, at most `count` at once and `share` of them for one claimant.

    Claimants that wait take turns; the jobs of one are done in the order they come.
    """

    def __init__(self, count: int, name: str, *, share: int | None = None) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)  # starts its threads with the first jobs
        self._free = count
        self._share = share or count
        self._at_work: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def are_busy(self) -> bool:
        """Whether all threads have a job."""
        return self._free == 0

    async def do(self, job: Callable[[], _Result], claimant: str = "") -> _Result:
        """The result of a job, once it is the claimant's turn. Cancelled before that, the job is not done."""
        await self._take_turn(claimant)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, job)
        finally:
            self._end_turn(claimant)

    async def _take_turn(self, claimant: str) -> None:
        if self._may_begin(claimant):
            self._begin(claimant)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(claimant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came in the same moment
                self._end_turn(claimant)
            raise

    def _may_begin(self, claimant: str) -> bool:
        return self._free > 0 and self._at_work[claimant] < self._share

    def _begin(self, claimant: str) -> None:
        self._free -= 1
        self._at_work[claimant] += 1

    def _end_turn(self, claimant: str) -> None:
        """Give the thread to the claimant that has waited longest for a turn, of those with less than their share."""
        self._free += 1
        self._at_work[claimant] -= 1
        self._at_work += Counter()  # forgets claimants without a job
        for following, turns in list(self._waiting.items()):
            while turns and turns[0].cancelled():
                turns.popleft()
            if turns and self._may_begin(following):
                self._begin(following)
                turns.popleft().set_result(None)
                self._waiting.move_to_end(following)
            if not turns:
                del self._waiting[following]
