"""Access lines are those that logging would write."""

import logging
import multiprocessing
import re
import time
from pathlib import Path

import pytest
import structlog

from gateway.monitoring.logs import configure, write_access_lines


def _write(output: str, format: str, level: str = "INFO") -> None:
    """The same line by logging and as an access line, with a key and a secret in it; then one that is unimportant."""
    configure({"level": level, "format": format})
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
    untimed = {name: value for name, value in line.items() if name != "timestamp"}
    write_access_lines([(time.time(), logging.INFO, untimed), (time.time(), logging.DEBUG, {"path": "/health"})])


def _lines(tmp_path: Path, *given: str) -> list[str]:
    output = tmp_path / "log"
    process = multiprocessing.get_context("spawn").Process(target=_write, args=(str(output), *given))
    process.start()
    process.join(120)
    assert process.exitcode == 0
    return output.read_text().splitlines()


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_line_is_what_logging_would_write(format: str, tmp_path: Path) -> None:
    by_logging, by_us = (re.sub(r"20\d\d-[-0-9T:.]+Z", "", line) for line in _lines(tmp_path, format))
    assert by_us == by_logging
    assert "hidden" not in by_us
    assert "x" * 38 not in by_us


def test_what_is_unimportant_is_written_for_debugging(tmp_path: Path) -> None:
    assert "/health" in _lines(tmp_path, "text", "DEBUG")[-1]
