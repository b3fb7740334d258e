"""A sensible client: it sends a request under an idempotency key until it is told what became of it.

What it asks for is `load`'s choice.
"""

import http.client
import random
import time
from typing import Any, Protocol

from faults.diary import Attempt, Diary, Effect, Outcome, Request
from lab.http import Answer, Http, LoadBalancer

PATIENCE = 12.0
"""Seconds for which a client tries on at once; then it does something else and comes back to it."""
COME_BACK = 5.0
"""Seconds until then."""
ENDED_WITHOUT_CHANGE = ("rejected", "expired", "cancelled", "failed", "stale")
"""States of a change request that was not applied and never will be."""
LATER = float("inf")
"""There is nothing to insist on: somebody else is at it."""
ANSWER_SECONDS = 45.0
"""How long a client waits for one answer."""

_OF_THE_BALANCER = (502, 503, 504)
"""Without a problem in JSON these are a load balancer's words for a host that it has lost."""


LOST = Answer(0, {}, None)
"""What a client is told when its connection is lost."""


class Transport(Protocol):
    """How a client's requests get to the gateway."""

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One exchange; never raises for a server that went away."""


class Connection:
    """One keep-alive connection, opened again when it was lost."""

    def __init__(self, base_url: str) -> None:
        self._http = Http(base_url, timeout=ANSWER_SECONDS)

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One exchange; never raises for a server that went away."""
        try:
            answer = self._http.send(method, path, body, headers)
        except (OSError, http.client.HTTPException):
            self._http.close()
            return LOST
        is_problem = "json" in answer.headers.get("content-type", "")
        return LOST if answer.status in _OF_THE_BALANCER and not is_problem else answer


class Balanced:
    """A client's way through a load balancer."""

    def __init__(self, balancer: LoadBalancer) -> None:
        self._balancer = balancer
        self._connections: dict[str, Connection] = {}

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One exchange; never raises for a server that went away."""
        with self._balancer.next_server() as url:
            return self._connections.setdefault(url, Connection(url)).send(method, path, body, headers)


class Client:
    """Sends a diary's requests and notes what it is told."""

    def __init__(self, diary: Diary, http: Transport, choices: random.Random) -> None:
        self.diary = diary
        self.choices = choices
        self._http = http
        self._unfinished: list[Request] = []

    @property
    def unfinished(self) -> list[Request]:
        """Requests of which the client still has to hear."""
        return self._unfinished

    @property
    def busy(self) -> set[str]:
        """The objects that such a request is about: a sensible client leaves them alone until it knows."""
        return {name for request in self._unfinished for name in request.objects}

    def complete(self, request: Request) -> None:
        """Send a new request, and again for a while if need be."""
        self.diary.requests.append(request)
        self._unfinished.append(request)
        self._insist(request)

    def come_back(self) -> None:
        """Go on with unfinished requests that are due."""
        for request in tuple(self._unfinished):
            if time.monotonic() >= request.retry_at:
                self._insist(request)

    def _insist(self, request: Request) -> None:
        deadline = time.monotonic() + PATIENCE
        while not request.is_over and time.monotonic() < deadline:
            pause = self._look(request) if request.change_request or request.run else self._send(request)
            if request.is_over or pause > deadline - time.monotonic():
                break
            time.sleep(pause)
        request.retry_at = time.monotonic() + COME_BACK
        if request.is_over:
            self._unfinished.remove(request)
            self.diary.learn(request)

    def _send(self, request: Request) -> float:
        """One attempt; returns how long to wait before the next, if it is not over."""
        begun = time.monotonic()
        headers = {
            "X-API-Key": request.credential,
            "Idempotency-Key": request.id,
            # One id for a whole job, as many clients send it: nothing may follow from it. The reason tells the checker.
            "X-Request-Id": self.diary.client,
            "X-Change-Reason": f"{request.id}.{len(request.attempts)}",
        }
        answer = self._http.send(request.method, request.path, request.body, headers)
        was_ambiguous = request.is_ambiguous
        request.attempts.append(Attempt(time.time(), time.monotonic() - begun, answer.status, answer.code))
        status = answer.status
        if status == LOST.status:
            return self.choices.uniform(0.2, 1.0)
        if status >= 500:
            return min(float(answer.headers.get("retry-after", "1")), 2.0)
        if status == 202 and "changeRequest" in answer.body:
            request.change_request = answer.body["changeRequest"]["id"]
            for each in request.effects:
                each.outcome = Outcome.WAITING
            return LATER
        if status == 202:
            request.run = answer.body["runId"]
            return LATER
        if answer.code == "Idempotency.InProgress":
            return 1.0
        if status < 300:
            _note(request, answer.body)
        elif request.operation.endswith(".delete") and status == 404 and was_ambiguous:
            request.end(Outcome.DONE)  # it is gone, and it was this client's to delete
        else:
            request.end(Outcome.OPEN if was_ambiguous else Outcome.REFUSED)
        return 0.0

    def _look(self, request: Request) -> float:
        """Ask for the end of a change that waits for a person, or of a run; returns how long until the next look."""
        path = f"change-requests/{request.change_request}" if request.change_request else f"ad/runs/{request.run}"
        answer = self._http.send("GET", f"/api/{path}", headers={"X-API-Key": request.credential})
        if answer.status != 200:
            return 1.0
        if request.run:
            if answer.body["state"] == "completed":
                _note(request, answer.body)
            return LATER
        status = answer.body["status"]
        if status == "applied":
            request.end(Outcome.DONE)
        elif status == "partly-failed":
            request.end(Outcome.OPEN)
        elif status in ENDED_WITHOUT_CHANGE:
            request.end(Outcome.REFUSED)
        return LATER


def _note(request: Request, body: Any) -> None:
    """What a 2xx says of each effect: of all, of each item of a batch, or of each account of a run."""
    results = body.get("results") if isinstance(body, dict) else None
    if results is None:
        for effect in request.effects:
            if effect.key[0] == "exists" and effect.value == "yes":
                effect.key = ("exists", body["id"])
        request.end(Outcome.DONE)
        return
    by_account = {result.get("id"): result for result in results}
    for effect in request.effects:
        result = by_account[effect.key[1]] if effect.index is None else results[effect.index]
        effect.outcome = _outcome_of(result, was_ambiguous=request.is_ambiguous)
        effect.was_so = result["status"] == "unchanged"
        if effect.outcome is Outcome.DONE and effect.key[0] == "exists" and effect.value == "yes":
            effect.key = ("exists", result["id"])
    request.is_over = True


def _outcome_of(result: dict[str, Any], *, was_ambiguous: bool) -> Outcome:
    status, code = result["status"], (result["problem"] or {}).get("code")
    if status in ("succeeded", "unchanged") or (isinstance(status, int) and status < 300):
        return Outcome.DONE
    if code == "AD.Directory.OutcomeUnknown" or was_ambiguous:
        return Outcome.OPEN
    return Outcome.REFUSED


def effect(kind: str, *objects: str, value: str, index: int | None = None) -> Effect:
    """A fact that a request is to make true."""
    return Effect((kind, *objects), value, index)
