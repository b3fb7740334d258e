"""Work that one release begins and another finishes, and a reader that never stops.

Nothing here may fail: every deviation is a finding.
"""

from contextlib import suppress
from typing import Any

from faults.client import LOST, Transport, Worker
from faults.world import Area
from lab.http import Answer
from lab.waiting import TimedOut, wait_until

APPLIED_WITHIN = 300.0
"""Generous, since the machine may be busy."""


class Handover:
    """Work of a person and a program that continues when the release that began it is gone.

    `begin` requests a change that waits for approval, a search's first page, and a change under an idempotency key.
    `finish` approves the change in the same session, waits until it is applied, reads the next page, and repeats the
    change, which must get the same answer and change nothing.
    """

    def __init__(self, http: Transport, accounts: dict[str, Any], area: Area) -> None:
        self.findings: list[str] = []
        self._http = http
        self._login = accounts["approver"]
        self._key, self._careful_key = {"X-API-Key": accounts["keys"][-1]}, accounts["careful"][-1]
        self._held_user, self._changed_user = area.supervised[0], area.people[0]
        self._session: dict[str, str] = {}
        self._name = ""
        self._request = ""
        self._cursor = ""
        self._first_answer = LOST

    def begin(self, name: str) -> None:
        """Begin everything; `name` makes the values unique."""
        self._name = name
        if not self._session:
            self._session = self._expect(200, "POST", "/rest/session", self._login).session
        # The checks identify the change by its reason.
        careful = {"X-API-Key": self._careful_key, "X-Change-Reason": f"held-{name}"}
        held = {"replace": {"title": f"Held {name}"}}
        answer = self._expect(202, "PATCH", f"/api/ad/users/{self._held_user}", held, careful)
        self._request = f"/rest/change-requests/{answer.body['changeRequest']['id']}"
        self._cursor = self._page("")["nextCursor"]
        self._first_answer = self._change()

    def finish(self) -> None:
        """Finish everything that was begun."""
        digest = {"digest": self._state()["digest"]}
        self._expect(200, "POST", f"{self._request}/approve", digest, self._session)
        if not self._page(f"&cursor={self._cursor}")["items"]:
            self.findings.append(f"{self._name}: the second page is empty")
        again = self._change()
        if again.body != self._first_answer.body or "idempotency-replayed" not in again.headers:
            self.findings.append(f"{self._name}: the change under an idempotency key was made again")
        with suppress(TimedOut):
            wait_until(lambda: self._state()["status"] not in ("approved", "applying"), APPLIED_WITHIN)
        if (status := self._state()["status"]) != "applied":
            self.findings.append(f"{self._name}: the approved change is {status}")

    def _state(self) -> Any:
        return self._expect(200, "GET", self._request, None, self._session).body

    def _change(self) -> Answer:
        body = {"replace": {"title": f"Repeated {self._name}"}}
        names = {"Idempotency-Key": self._name, "X-Request-Id": "handover", "X-Change-Reason": self._name}
        return self._expect(200, "PATCH", f"/api/ad/users/{self._changed_user}", body, self._key | names)

    def _page(self, cursor: str) -> Any:
        return self._expect(200, "GET", f"/api/ad/users?attributes=cn&pageSize=2{cursor}", None, self._key).body

    def _expect(
        self, status: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        answer = self._http.send(method, path, body, headers)
        if answer.status != status:
            raise RuntimeError(f"{self._name}: {method} {path} is {answer.status} {answer.body}")
        return answer


class Reader(Worker):
    """A program that keeps searching page by page and reading objects."""

    def __init__(self, http: Transport, key: str) -> None:
        super().__init__("reader")
        self.answers: list[tuple[str, int]] = []
        self._http = http
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
