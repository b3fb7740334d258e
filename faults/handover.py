"""Work that one release begins and another finishes, and a reader that never stops.

Nothing here may fail: every deviation is a finding.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from faults.client import Caller, Transport
from faults.world import Area
from lab.http import Answer, LoadBalancer
from lab.waiting import TimedOut, wait_until

APPLIED_WITHIN = 300.0
"""Generous, since the machine may be busy."""


class Handover:
    """Work of a person and a program that continues when the release that began it is gone."""

    def __init__(self, balancer: LoadBalancer, accounts: dict[str, Any], area: Area) -> None:
        self.findings: list[str] = []
        self._http = Transport(balancer)
        self._login = accounts["approver"]
        self._key, self._careful_key = {"X-API-Key": accounts["keys"][-1]}, {"X-API-Key": accounts["careful"][-1]}
        self._held_user, self._changed_user = area.supervised[0], area.people[0]
        self._session: dict[str, str] = {}

    def begin(self, name: str) -> Callable[[], None]:
        """Request a change that waits for approval, a search's first page, and a change under an idempotency key.

        `name` makes the values unique. Return what finishes it: that approves the change in the same session, waits
        until it is applied, reads the next page, and repeats the other change, which must get the same answer and
        change nothing.
        """
        self._session = self._session or self._expect(200, "POST", "/rest/session", self._login).session
        body = {"replace": {"title": f"Held {name}"}}
        reason = {"X-Change-Reason": f"held-{name}"}  # by which the checks identify the change
        held = self._expect(202, "PATCH", f"/api/ad/users/{self._held_user}", body, self._careful_key | reason)
        request = f"/rest/change-requests/{held.body['changeRequest']['id']}"
        cursor = self._page("")["nextCursor"]
        first = self._change(name)

        def read() -> Any:
            return self._expect(200, "GET", request, None, self._session).body

        def finish() -> None:
            self._expect(200, "POST", f"{request}/approve", {"digest": read()["digest"]}, self._session)
            if not self._page(f"&cursor={cursor}")["items"]:
                self.findings.append(f"{name}: the second page is empty")
            again = self._change(name)
            if again.body != first.body or "idempotency-replayed" not in again.headers:
                self.findings.append(f"{name}: the change under an idempotency key was made again")
            with suppress(TimedOut):
                wait_until(lambda: read()["status"] not in ("approved", "applying"), APPLIED_WITHIN)
            if (status := read()["status"]) != "applied":
                self.findings.append(f"{name}: the approved change is {status}")

        return finish

    def _change(self, name: str) -> Answer:
        body = {"replace": {"title": f"Repeated {name}"}}
        names = {"Idempotency-Key": name, "X-Request-Id": "handover", "X-Change-Reason": name}
        return self._expect(200, "PATCH", f"/api/ad/users/{self._changed_user}", body, self._key | names)

    def _page(self, cursor: str) -> Any:
        return self._expect(200, "GET", f"/api/ad/users?attributes=cn&pageSize=2{cursor}", None, self._key).body

    def _expect(
        self, status: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        answer = self._http.send(method, path, body, headers)
        if answer.status != status:
            raise RuntimeError(f"{method} {path} is {answer.status} {answer.body}")
        return answer


class Reader(Caller):
    """A program that keeps searching page by page and reading objects."""

    def __init__(self, balancer: LoadBalancer, key: str) -> None:
        super().__init__("reader", balancer)
        self.answers: list[tuple[str, int]] = []
        self._headers = {"X-API-Key": key}

    @property
    def findings(self) -> list[str]:
        """The reads that were not answered with 200, or with 404 for an object that may have been deleted since."""
        failed = [(path, status) for path, status in self.answers if status != 200]
        return [f"GET {path} is {status}" for path, status in failed if status != 404 or "/users/" not in path]

    def run(self) -> None:
        cursor = ""
        while not self._ended.wait(0.1):
            page = self._get(f"/api/ad/users?pageSize=5{cursor}") or {"nextCursor": None, "items": []}
            cursor = f"&cursor={page['nextCursor']}" if page["nextCursor"] else ""
            for item in page["items"][:1]:
                self._get(f"/api/ad/users/{item['id']}")

    def _get(self, path: str) -> Any:
        answer = self._http.send("GET", path, headers=self._headers)
        self.answers.append((path, answer.status))
        return answer.body if answer.status == 200 else None
