"""The gateway as it is deployed: granian and a Celery worker in processes of their own, on the tests' servers."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.commands import PROJECT, web_command, worker_command
from lab.processes import log_tail, start_process, stop_process


class LiveGateway:
    """Web server and worker against one database; tests kill them and start them again as they like."""

    def __init__(self, directory: Path, *, database_url: str, configuration: Mapping[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._environment = {
            **os.environ,
            "DATABASE_URL": database_url,
            **(configuration or {}),
        }
        self._port = free_port()
        self.base_url = f"http://127.0.0.1:{self._port}"
        self.web_log = directory / "web.log"
        self.worker_log = directory / "worker.log"
        self._web: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End both, with their children."""
        self.stop_web()
        self.stop_worker()

    @property
    def is_running(self) -> bool:
        """Whether any of its processes was started and not ended."""
        return self._web is not None or self._worker is not None

    def start_web(self) -> None:
        """Start the web server and wait for its health; one that runs is enough."""
        if self._is_up(self._web, self.web_log):
            return
        self._web = self._start(web_command(host="127.0.0.1", port=self._port), self.web_log)
        self._wait(self._web, self.web_log, self._is_healthy)

    def stop_web(self) -> None:
        """End the web server after the requests it is answering."""
        if self._web is not None:
            stop_process(self._web)
            self._web = None

    def start_worker(self) -> None:
        """Start a worker and wait until it takes tasks; one that runs is enough."""
        if self._is_up(self._worker, self.worker_log):
            return
        self._worker = self._start(worker_command(), self.worker_log)
        self._wait(self._worker, self.worker_log, lambda: " ready." in self.worker_log.read_text(errors="replace"))

    def stop_worker(self) -> None:
        """End the worker after the task it is doing."""
        if self._worker is not None:
            stop_process(self._worker)
            self._worker = None

    def kill_worker(self) -> None:
        """Kill the worker and its children in the middle of whatever they do."""
        if self._worker is not None:
            _kill_group(self._worker)
            self._worker = None

    def kill_web(self) -> None:
        """Kill the web server and its children in the middle of whatever they do."""
        if self._web is not None:
            _kill_group(self._web)
            self._web = None

    def request(
        self, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        """One request as a client with nothing but HTTP makes it: status, headers in lower case, and the body.

        `set-cookie` is what to send back as Cookie.
        """
        data = None if body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if data is not None else {}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        with contextlib.closing(connection):
            connection.request(method, path, body=data, headers={**given, **(headers or {})})
            answer = connection.getresponse()
            content = answer.read()
            names = {name.lower(): value for name, value in answer.getheaders()}
            if cookies := answer.headers.get_all("Set-Cookie"):
                names["set-cookie"] = "; ".join(cookie.partition(";")[0] for cookie in cookies)
            is_json = names.get("content-type", "").partition(";")[0].endswith(("/json", "+json"))
            return answer.status, names, json.loads(content) if content and is_json else content or None

    def _start(self, command: list[str], log_file: Path) -> subprocess.Popen[bytes]:
        with log_file.open("wb") as log:
            return start_process(command, environment=self._environment, directory=PROJECT, output=log)

    def _is_up(self, process: subprocess.Popen[bytes] | None, log_file: Path) -> bool:
        """Whether it was started and not ended by us: one that ended by itself would be missed by every later test."""
        if process is not None and process.poll() is not None:
            ended = f"A process of the gateway ended by itself ({process.returncode}):\n{log_tail(log_file)}"
            self.stop()
            raise RuntimeError(ended)
        return process is not None

    def _wait(self, process: subprocess.Popen[bytes], log_file: Path, is_ready: Any) -> None:
        deadline = time.monotonic() + 600
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"The gateway did not start:\n{log_tail(log_file)}")
            time.sleep(0.1)

    def _is_healthy(self) -> bool:
        try:
            return self.request("GET", "/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    stop_process(process)


def free_port() -> int:
    """A port of loopback that nobody listens to now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
