"""Access lines are written by a thread, many at once, and none is lost."""

import json
import logging
import multiprocessing
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.monitoring import access_lines
from gateway.monitoring.access_lines import AccessLines
from gateway.monitoring.logs import configure

MANY = 300


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of lines as they are written."""
    lines: list[str] = []
    monkeypatch.setattr(access_lines, "write_lines", lambda _, given: lines.extend(line["path"] for _, line in given))
    return lines


@pytest.fixture
def served() -> Iterator[AccessLines]:
    lines = AccessLines()
    lines.start()
    yield lines
    lines.writer.flush()


def test_they_are_written_in_their_order(served: AccessLines, written: list[str]) -> None:
    paths = [f"/{number}" for number in range(MANY)]
    for path in paths:
        served.add({"path": path})
    served.writer.flush()
    assert written == paths


def test_a_thread_writes_them(served: AccessLines, monkeypatch: pytest.MonkeyPatch) -> None:
    by: list[str] = []
    has_come = threading.Event()

    def note(*_: Any) -> None:
        by.append(threading.current_thread().name)
        has_come.set()

    monkeypatch.setattr(access_lines, "write_lines", note)
    served.add({"path": "/"})
    assert has_come.wait(60)
    assert by == ["access-lines"]


def test_a_full_queue_makes_requests_write_their_own(served: AccessLines, written: list[str]) -> None:
    served.writer.capacity = 0
    served.add({"path": "/at-once"})
    assert written == ["/at-once"]


def test_without_a_thread_they_are_written_at_once(written: list[str]) -> None:
    AccessLines().add({"path": "/at-once"})
    assert written == ["/at-once"]


def test_what_the_level_leaves_out_is_not_kept(served: AccessLines, written: list[str]) -> None:
    level = logging.getLogger("gateway.access")
    level.setLevel(logging.INFO)
    try:
        served.add({"path": "/health"}, is_unimportant=True)
        served.writer.flush()
    finally:
        level.setLevel(logging.NOTSET)
    assert written == []


def _line_processes(output: str, format: str) -> None:
    """The same line by logging and by the way of access lines, a key in its address and a member to be hidden."""
    configure({"level": "INFO", "format": format})
    for handler in logging.getLogger().handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(Path(output).open("w"))  # noqa: SIM115 - open until the process ends
    line = {
        "timestamp": "2026-11-22T10:00:00Z",
        "path": f'/api/ad/users?q="a b"&key=dgk_0123456789AB_{"x" * 38}',
        "status": 200,
        "trace_id": None,
        "token": "hidden",
    }
    structlog.stdlib.get_logger("gateway.access").info("request", **line)
    access_lines.access_lines.add({name: value for name, value in line.items() if name != "timestamp"})


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_line_is_what_logging_would_write(format: str, tmp_path: Path) -> None:
    output = tmp_path / "log"
    process = multiprocessing.get_context("spawn").Process(target=_line_processes, args=(str(output), format))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    by_logging, by_us = (re.sub(r"20\d\d-[-0-9T:.]+Z", "", line) for line in output.read_text().splitlines())
    assert by_us == by_logging
    assert "hidden" not in by_us
    assert "x" * 38 not in by_us


def _process(output: str) -> None:
    """A process of a server, which ends while lines are waiting."""
    configure({"level": "INFO", "format": "json"})
    for handler in logging.getLogger().handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(Path(output).open("w"))  # noqa: SIM115 - open until the process ends
    access_lines.access_lines.start()
    for number in range(MANY):
        access_lines.access_lines.add({"path": f"/{number}", "request_id": str(number)})


def test_nothing_is_lost_when_a_process_ends(tmp_path: Path) -> None:
    output = tmp_path / "log"
    process = multiprocessing.get_context("spawn").Process(target=_process, args=(str(output),))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["path"] for line in lines] == [f"/{number}" for number in range(MANY)]
    assert {"timestamp", "request_id", "level", "event"} <= lines[0].keys()
