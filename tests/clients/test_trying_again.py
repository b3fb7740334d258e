"""The Python client's layer against a server that fails as servers do: limits, outages, answers that get lost."""

import importlib
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import mypy.api
import pytest


@pytest.fixture
def package(python_client: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(python_client))
    yield importlib.import_module("gateway_client")
    for name in [name for name in sys.modules if name.partition(".")[0] == "gateway_client"]:
        del sys.modules[name]


@dataclass
class Failing:
    """Answers with these statuses in turn; 0 is none at all. `keys` are the idempotency keys that came."""

    statuses: list[int]
    retry_after: str | None = "1"
    keys: list[str | None] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    code: str = "Any.Code"


@pytest.fixture
def failing() -> Iterator[Any]:
    servers: list[ThreadingHTTPServer] = []

    def start(statuses: list[int], **more: Any) -> tuple[Failing, str]:
        script = Failing(statuses, **more)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                script.keys.append(self.headers["Idempotency-Key"])
                script.at.append(time.monotonic())
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                status = script.statuses.pop(0)
                if status == 0:
                    self.connection.close()
                    return
                content = f'{{"code": "{script.code}", "title": "A title"}}'.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/problem+json")
                self.send_header("Content-Length", str(len(content)))
                if script.retry_after is not None:
                    self.send_header("Retry-After", script.retry_after)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815 - what http.server calls

            def log_message(self, format: str, *args: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return script, f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def send(package: ModuleType, url: str, method: str = "POST", **options: Any) -> int:
    with package.connect(url, "dgk_x", **options).get_httpx_client() as client:
        return int(client.request(method, "/", json={}).status_code)


def test_a_limit_is_waited_for(package: ModuleType, failing: Any) -> None:
    script, url = failing([429, 503, 299])
    assert send(package, url) == 299
    assert script.at[2] - script.at[0] >= 2
    assert script.keys[0]
    assert len(set(script.keys)) == 1


def test_a_lost_answer_is_asked_for_with_the_same_key(package: ModuleType, failing: Any) -> None:
    script, url = failing([0, 409, 299], code="Idempotency.InProgress")
    assert send(package, url) == 299
    assert script.keys[0]
    assert len(set(script.keys)) == 1


def test_another_request_has_another_key_and_a_read_none(package: ModuleType, failing: Any) -> None:
    script, url = failing([299, 299, 299])
    assert [send(package, url), send(package, url), send(package, url, "GET")] == [299] * 3
    assert script.keys[0] != script.keys[1]
    assert script.keys[2] is None


@pytest.mark.parametrize("status", [400, 409, 422, 500, 504])
def test_what_would_not_change_is_answered_at_once(package: ModuleType, failing: Any, status: int) -> None:
    script, url = failing([status])
    assert send(package, url) == status
    assert len(script.keys) == 1


def test_it_ends_at_some_time(package: ModuleType, failing: Any) -> None:
    _, url = failing([503, 503], retry_after="0")
    assert send(package, url, attempts=2) == 503
    _, url = failing([429], retry_after="3600")
    assert send(package, url) == 429


def test_the_layer_is_typed(python_client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(python_client)
    files = sorted(str(path) for path in Path("gateway_client").glob("*.py"))
    output, errors, status = mypy.api.run(["--strict", "--config-file=", "--follow-imports=silent", *files])
    assert status == 0, output + errors
