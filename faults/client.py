"""A sensible client: it repeats a request under an idempotency key until it knows the result.

`load` chooses the requests.
"""

import http.client
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from faults.diary import YES, Attempt, Diary, Key, Outcome, Request
from lab.http import Answer, Http, LoadBalancer

RETRY_SECONDS = 12.0
"""How long a client retries before it does something else and returns to the request later."""

PAUSE_SECONDS = 5.0
"""How much later."""

_WITHOUT_CHANGE = ("rejected", "expired", "cancelled", "failed", "stale")
_ENDS = {"applied": Outcome.DONE, "partly-failed": Outcome.OPEN, **dict.fromkeys(_WITHOUT_CHANGE, Outcome.REFUSED)}
"""What the last states of a change request tell."""

NOT_NOW = float("inf")
"""The pause when only somebody else can make progress."""

ANSWER_SECONDS = 45.0
"""How long a client waits for one answer."""

_BALANCER_STATUSES = (502, 503, 504)
"""Without a JSON problem, these statuses are the load balancer's, for a host that it has lost."""

LOST = Answer(0, {}, None)
"""Stands for the answer when the connection is lost."""


class Transport:
    """A client's way to the gateway: one kept connection to each server that the balancer chooses for a request."""

    def __init__(self, balancer: LoadBalancer) -> None:
        self._balancer = balancer
        self._connections: dict[str, Http] = {}

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One exchange; never raises for a server that went away."""
        with self._balancer.next_server() as url:
            connection = self._connections.setdefault(url, Http(url, timeout=ANSWER_SECONDS))
            try:
                answer = connection.send(method, path, body, headers)
            except (OSError, http.client.HTTPException):
                connection.close()
                return LOST
        is_problem = "json" in answer.headers.get("content-type", "")
        return LOST if answer.status in _BALANCER_STATUSES and not is_problem else answer


class Worker(threading.Thread):
    """A thread that works until it is told to end."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop as soon as possible."""
        self._ended.set()


@contextmanager
def working(*workers: Worker) -> Iterator[None]:
    """Have them work within the block."""
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.join(300)


class Caller(Worker):
    """A worker that sends requests, and makes its choices by a seed."""

    def __init__(self, name: str, balancer: LoadBalancer, seed: int = 0) -> None:
        super().__init__(name)
        self._http = Transport(balancer)
        self._choices = random.Random(f"{seed}-{name}")


class Client(Caller):
    """Sends requests and records their results in the diary."""

    def __init__(self, name: str, balancer: LoadBalancer, seed: int, facts: dict[Key, str]) -> None:
        super().__init__(name, balancer, seed)
        self.diary = Diary(name, initial=dict(facts), facts=dict(facts))
        self.unfinished: list[Request] = []
        """Requests whose result the client does not know yet."""

    @property
    def busy(self) -> set[str]:
        """The objects of unfinished requests, which a sensible client leaves alone."""
        return {name for request in self.unfinished for name in request.objects}

    def complete(self, request: Request) -> None:
        """Send a new request, with retries for a while."""
        self.diary.requests.append(request)
        self.unfinished.append(request)
        self._retry(request)

    def resume_unfinished(self) -> None:
        """Retry unfinished requests that are due."""
        for request in tuple(self.unfinished):
            if time.monotonic() >= request.retry_at:
                self._retry(request)

    def _retry(self, request: Request) -> None:
        deadline = time.monotonic() + RETRY_SECONDS
        while not request.is_over and time.monotonic() < deadline:
            pause = self._poll(request) if request.progress else self._send(request)
            if request.is_over or pause > deadline - time.monotonic():
                break
            time.sleep(pause)
        request.retry_at = time.monotonic() + PAUSE_SECONDS
        if request.is_over:
            self.unfinished.remove(request)
            self.diary.add_facts(request)

    def _send(self, request: Request) -> float:
        """Send an attempt; return how long to wait before the next one, if the request is not over."""
        begun = time.monotonic()
        headers = {
            "X-API-Key": request.credential,
            "Idempotency-Key": request.id,
            # One id for a whole job, as many clients send: the gateway must not rely on it. Checks use the reason.
            "X-Request-Id": self.name,
            "X-Change-Reason": f"{request.id}.{len(request.attempts)}",
        }
        answer = self._http.send(request.method, request.path, request.body, headers)
        was_ambiguous = request.is_ambiguous
        request.attempts.append(Attempt(time.time(), time.monotonic() - begun, answer.status, answer.code))
        status = answer.status
        if status == LOST.status:
            return self._choices.uniform(0.2, 1.0)
        if status >= 500:
            return min(float(answer.headers.get("retry-after", "1")), 2.0)
        if status == 202:
            request.progress = _progress_of(answer.body)
            for each in request.effects if "changeRequest" in answer.body else ():
                each.outcome = Outcome.WAITING
            return NOT_NOW
        if answer.code == "Idempotency.InProgress":
            return 1.0
        if status < 300:
            _record_outcomes(request, answer.body)
        elif request.operation.endswith(".delete") and status == 404 and was_ambiguous:
            request.end(Outcome.DONE)  # an earlier attempt has deleted it, since nobody else would
        else:
            request.end(Outcome.OPEN if was_ambiguous else Outcome.REFUSED)
        return 0.0

    def _poll(self, request: Request) -> float:
        """Ask for the state of a change request or a run; return how long to wait before asking again."""
        answer = self._http.send("GET", request.progress, headers={"X-API-Key": request.credential})
        if answer.status != 200:
            return 1.0
        state = answer.body.get("state", answer.body.get("status"))
        if state == "completed":
            _record_outcomes(request, answer.body)
        elif state in _ENDS:
            request.end(_ENDS[state])
        return NOT_NOW


def _progress_of(body: Any) -> str:
    """Where the answer of a request that is not finished leads: to a change request or a run."""
    held = body.get("changeRequest")
    return f"/api/change-requests/{held['id']}" if held else f"/api/ad/runs/{body['runId']}"


def _record_outcomes(request: Request, body: Any) -> None:
    """Record the outcome of each effect from a 2xx: for the request, batch items, or accounts of a run."""
    results = body.get("results") if isinstance(body, dict) else None
    by_account = {result.get("id"): result for result in results or ()}
    for effect in request.effects:
        result, effect.outcome = body, Outcome.DONE
        if results is not None:
            result = by_account[effect.key[1]] if effect.index is None else results[effect.index]
            effect.outcome = _outcome_of(result, was_ambiguous=request.is_ambiguous)
            effect.was_unchanged = result["status"] == "unchanged"
        if effect.outcome is Outcome.DONE and effect.key[0] == "exists" and effect.value == YES:
            effect.key = ("exists", result["id"])
    request.is_over = True


def _outcome_of(result: dict[str, Any], *, was_ambiguous: bool) -> Outcome:
    status, code = result["status"], (result["problem"] or {}).get("code")
    if status in ("succeeded", "unchanged") or (isinstance(status, int) and status < 300):
        return Outcome.DONE
    if code == "AD.Directory.OutcomeUnknown" or was_ambiguous:
        return Outcome.OPEN
    return Outcome.REFUSED
