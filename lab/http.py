"""A plain HTTP client for JSON, and a load balancer for several clients."""

import contextlib
import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """An answer: headers by lower-case name; the body parsed if it is JSON, None if there is none."""

    status: int
    headers: dict[str, str]
    body: Any

    @property
    def code(self) -> str | None:
        """The code of a problem."""
        return self.body.get("code") if isinstance(self.body, dict) else None

    @property
    def session(self) -> dict[str, str]:
        """The headers of a person's later requests, by the answer to the sign-in."""
        return {"Cookie": self.headers["set-cookie"], "X-CSRFToken": self.body["csrfToken"]}


class Http:
    """One keep-alive connection, reopened when it was closed. `timeout` in seconds is for each socket operation."""

    def __init__(self, base_url: str, headers: Mapping[str, str] | None = None, *, timeout: float = 300) -> None:
        parts = urlsplit(base_url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
        self._headers = headers or {}

    def send(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request, with the body as JSON; raises OSError or HTTPException if the connection is lost."""
        data = None if body is None else json.dumps(body).encode()
        defaults = {"Content-Type": "application/json"} if data is not None else {}
        self._connection.request(method, path, data, {**defaults, **self._headers, **(headers or {})})
        answer = self._connection.getresponse()
        content = answer.read()
        headers_received = {name.lower(): value for name, value in answer.getheaders()}
        if lines := answer.headers.get_all("Set-Cookie"):
            headers_received["set-cookie"] = "; ".join(_cookie(line) for line in lines)
        is_json = headers_received.get("content-type", "").partition(";")[0].endswith(("/json", "+json"))
        return Answer(answer.status, headers_received, json.loads(content) if content and is_json else content or None)

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Send a request and return the body of its answer; raises RuntimeError if it is refused."""
        answer = self.send(method, path, body, headers)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} was answered with {answer.status}: {answer.body}")
        return answer.body

    def sign_in(self, login: Mapping[str, str]) -> None:
        """Send all further requests in the session of this person."""
        self._headers = {**self._headers, **self.send("POST", "/rest/session", login).session}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class LoadBalancer:
    """Distributes requests over web servers in turn. The servers may change at any time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._urls: tuple[str, ...] = ()
        self._busy: Counter[str] = Counter()
        self._turn = 0

    def use(self, *urls: str) -> None:
        """Use these servers from now on, and wait until no request to another one is open; raises RuntimeError."""
        with self._changed:
            self._urls = urls
            is_drained = self._changed.wait_for(lambda: all(url in urls for url in +self._busy), 300)
        if not is_drained:
            raise RuntimeError("a request was not answered")

    @contextlib.contextmanager
    def next_server(self) -> Iterator[str]:
        """Yield the URL of the next server, which counts as busy until the block ends."""
        with self._changed:
            self._turn += 1
            url = self._urls[self._turn % len(self._urls)]
            self._busy[url] += 1
        try:
            yield url
        finally:
            with self._changed:
                self._busy[url] -= 1
                self._changed.notify_all()


def _cookie(line: str) -> str:
    return "; ".join(f"{name}={morsel.value}" for name, morsel in SimpleCookie(line).items())


def is_healthy(base_url: str) -> bool:
    """Whether a gateway answers there."""
    with contextlib.closing(Http(base_url, timeout=2)) as client:
        try:
            return client.send("GET", "/health").status == 200
        except (OSError, http.client.HTTPException):
            return False
