"""The fixed number of threads that answer requests, each with its own connections to the database and Redis.

Claimants share them: a claimant is the credential of a request, or else its address. Nobody is authenticated here.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from django.conf import settings
from django.http.cookie import parse_cookie

from core.ip_addresses import AddressList
from core.rate_limits import address_subject
from gateway.middleware.client_address import forwarded_address, peer_address
from keys.callers import IS_IDENTIFIED

_Result = TypeVar("_Result")


class Threads:
    """Runs jobs for one event loop, at most `count` at once, and at most `share` of one claimant.

    Waiting claimants take turns; the jobs of one claimant run in the order of their arrival.
    """

    def __init__(self, count: int, name: str, *, share: int | None = None) -> None:
        # One pool each, so that a job goes to the thread that has worked last: its connections are warm, and a read
        # takes a tenth less than where all threads take turns. A pool starts its thread with its first job.
        self._idle = [ThreadPoolExecutor(1, thread_name_prefix=f"{name}-{number}") for number in range(count)]
        self._share = share or count
        self._at_work: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[ThreadPoolExecutor]]] = OrderedDict()

    @property
    def are_busy(self) -> bool:
        """Whether all threads have a job."""
        return not self._idle

    async def do(self, job: Callable[[], _Result], claimant: str = "") -> _Result:
        """Run a job when it is the claimant's turn, and return its result. Cancelled before, it never runs."""
        thread = await self._take_turn(claimant)
        running = thread.submit(job)
        try:
            return await asyncio.wrap_future(running)
        finally:
            if running.done():
                self._end_turn(claimant, thread)
            else:  # whoever waited for it does not any more; the thread is still at work
                end_turn = partial(self._end_turn, claimant, thread)
                loop = asyncio.get_running_loop()
                running.add_done_callback(lambda _: loop.call_soon_threadsafe(end_turn))

    async def _take_turn(self, claimant: str) -> ThreadPoolExecutor:
        if self._may_begin(claimant):
            return self._begin(claimant)
        turn: asyncio.Future[ThreadPoolExecutor] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(claimant, deque()).append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came at the same moment
                self._end_turn(claimant, turn.result())
            raise

    def _may_begin(self, claimant: str) -> bool:
        return bool(self._idle) and self._at_work[claimant] < self._share

    def _begin(self, claimant: str) -> ThreadPoolExecutor:
        self._at_work[claimant] += 1
        return self._idle.pop()

    def _end_turn(self, claimant: str, thread: ThreadPoolExecutor) -> None:
        """Give the thread to the claimant that has waited longest, among those below their share."""
        self._idle.append(thread)
        self._at_work[claimant] -= 1
        if not self._at_work[claimant]:
            del self._at_work[claimant]
        for following, turns in list(self._waiting.items()):
            while turns and turns[0].cancelled():
                turns.popleft()
            if turns and self._may_begin(following):
                turns.popleft().set_result(self._begin(following))
                self._waiting.move_to_end(following)
            if not turns:
                del self._waiting[following]


MAX_SESSIONS = 10_000
_KEY_PREFIXES = ("/api/", "/ad/", "/mcp/")
"""Below these a key or token is the credential, below all other paths a session."""


class Claimants:
    """Identifies claimants before any credential is checked.

    Keys and tokens are taken at face value: a wrong one is refused within a millisecond, so it hardly matters whose
    turn it takes. A request with a session cookie may be a sign-in, which takes longer, so only a session that was
    authenticated before counts.
    """

    def __init__(self) -> None:
        self._proxies = AddressList(settings.CONFIGURATION.ForwardedHeaders.KnownProxies)
        self._sessions: OrderedDict[str, None] = OrderedDict()

    def find(self, environ: Mapping[str, Any]) -> str:
        """Return the claimant of a request, the same for all spellings of its credential."""
        if f"{environ['PATH_INFO']}/".startswith(_KEY_PREFIXES):
            presented = environ.get("HTTP_X_API_KEY") or environ.get("HTTP_AUTHORIZATION")
            if presented and (words := presented.split()):
                last: str = words[-1]
                return last
        elif (session := _session(environ)) in self._sessions:
            self._sessions.move_to_end(session)
            return session
        address = peer_address(environ.get("REMOTE_ADDR", ""))
        return address_subject(str(forwarded_address(address, environ.get("HTTP_X_FORWARDED_FOR", ""), self._proxies)))

    def remember_session(self, environ: Mapping[str, Any]) -> None:
        """Remember the session of a request whose caller was authenticated."""
        if IS_IDENTIFIED not in environ or not (session := _session(environ)):
            return
        self._sessions[session] = None
        self._sessions.move_to_end(session)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)


def _session(environ: Mapping[str, Any]) -> str:
    cookies = environ.get("HTTP_COOKIE")
    session: str = parse_cookie(cookies).get(settings.SESSION_COOKIE_NAME, "") if cookies else ""
    return session
