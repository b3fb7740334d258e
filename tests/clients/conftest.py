"""The programs of the clients' READMEs: how they are run, who approves what they wait for; and a server that fails."""

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from approvals.models import ChangeRequest, Status
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.commands import PROJECT
from lab.gateway import LiveGateway
from tests.clients.terminal import Terminal, terminal
from tests.support.cast import Console, make_integration, make_person

Run = Callable[[list[str], Path], str]


def copy_client(name: str, to: Path) -> Path:
    """The client without what was generated, where nothing else is."""
    generated = shutil.ignore_patterns("generated", "generated.ts", "dist", "node_modules", "__pycache__", "*.egg-info")
    return Path(shutil.copytree(PROJECT / "clients" / name, to / name, ignore=generated))


def node_modules() -> Path:
    """The Node packages of the TypeScript client and of the linters, as `scripts/bootstrap test` installed them."""
    found = PROJECT / "clients" / "typescript" / "node_modules"
    assert found.is_dir(), "run scripts/bootstrap test"
    return found


def node_path() -> str:
    """PATH with the Node.js that bootstrap chose: it is in the virtual environment only if the machine has none."""
    return f"{PROJECT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"


def programs(client: Path, language: str) -> str:
    """The programs of the README, one after the other."""
    text = (client / "README.md").read_text("utf-8")
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def make_client(name: str, directory: Path) -> Path:
    """Generate what is generated of the client, and make its package."""
    place = directory / "package"
    made = subprocess.run(
        [PROJECT / "scripts" / "make-clients", name, directory, place], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    [package] = place.iterdir()
    return package


@pytest.fixture(scope="session")
def python_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python client, generated."""
    client = copy_client("python", tmp_path_factory.mktemp("clients"))
    make_client("python", client)
    return client


@pytest.fixture
def run_programs(
    transactional_db: None, live_gateway: LiveGateway, connection: DirectoryConnection, organizational_unit: str
) -> Run:
    """Runs a command in a directory until it ends, and approves every change that waits meanwhile; its output."""
    key = make_integration(connection)
    supervised = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    approver = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    environment = {
        **os.environ,
        "PATH": node_path(),
        "GATEWAY_URL": live_gateway.base_url,
        "GATEWAY_KEY": key.value,
        "GATEWAY_SUPERVISED_KEY": supervised.value,
        "GATEWAY_UNIT": organizational_unit,
    }

    def run(command: list[str], directory: Path) -> str:
        with (directory / "output.txt").open("w+") as output:
            process = subprocess.Popen(
                command, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
            )
            try:
                while process.poll() is None:
                    for held in ChangeRequest.objects.filter(status=Status.PENDING):
                        path = f"/rest/change-requests/{held.id}/approve"
                        assert approver.post(path, {"digest": held.digest}).status == 200
                    _wait_a_moment(process)
            finally:
                process.kill()
                process.wait()
            output.seek(0)
            text = output.read()
        assert process.returncode == 0, text
        return text

    return run


def _wait_a_moment(process: "subprocess.Popen[str]") -> None:
    try:
        process.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        return


@dataclass
class Failing:
    """Answers with these statuses in turn; 0 is none at all. `keys` are the idempotency keys that came."""

    statuses: list[int]
    retry_after: str | None = "1"
    keys: list[str | None] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    code: str = "Any.Code"
    headers: list[Any] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    content: bytes | None = None


@pytest.fixture
def failing() -> Iterator[Any]:
    servers: list[ThreadingHTTPServer] = []

    def start(statuses: list[int], **more: Any) -> tuple[Failing, str]:
        script = Failing(statuses, **more)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                script.keys.append(self.headers["Idempotency-Key"])
                script.reasons.append(self.headers["X-Change-Reason"])
                script.at.append(time.monotonic())
                script.headers.append(self.headers)
                script.bodies.append(self.rfile.read(int(self.headers["Content-Length"] or 0)))
                status = script.statuses.pop(0)
                if status == 0:
                    self.connection.close()
                    return
                content = script.content or f'{{"code": "{script.code}", "title": "A title"}}'.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/problem+json")
                self.send_header("Content-Length", str(len(content)))
                if script.retry_after is not None:
                    self.send_header("Retry-After", script.retry_after)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - what http.server calls

            def log_message(self, format: str, *args: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return script, f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def offline(tmp_path: Path) -> Terminal:
    return terminal(tmp_path)
