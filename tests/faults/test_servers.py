"""Whether a campaign sees what looks after itself: a server that ends is started again, and must not be forgotten."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.services import Service
from lab.waiting import wait_until


def supervise(service: Service, until: Callable[[], object]) -> None:
    def is_there() -> object:
        service.supervise()
        return until()

    wait_until(is_there)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "service.log"


def made(log_file: Path, program: str, *arguments: Path) -> Service:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return Service("worker", command, environment={}, log_file=log_file, is_ready=lambda: True)


def test_a_process_that_ends_by_itself_is_a_finding(log_file: Path) -> None:
    service = made(log_file, "import sys; print('the broker is lost', flush=True); sys.exit(3)")
    service.start()
    try:
        supervise(service, lambda: service.unexpected_ends)
        assert service.unexpected_ends[0] == "worker ended with 3: the broker is lost"
    finally:
        service.stop()


@pytest.mark.parametrize("fault", ["kill", "crash", "restart"])
def test_one_that_the_campaign_ends_is_none(log_file: Path, fault: str) -> None:
    service = made(log_file, "import time; time.sleep(600)")
    service.start()
    ended = service.pid
    try:
        if fault == "kill":
            service.kill()
        else:
            getattr(service, fault)(pause=0)
        supervise(service, lambda: service.pid not in (0, ended))
        assert service.unexpected_ends == []
    finally:
        service.stop()


_ENDS_ONCE_TOLD = """
import sys, time
from pathlib import Path
told = Path(sys.argv[1])
while not told.exists():
    time.sleep(0.02)
told.unlink()
sys.exit(1)
"""


@pytest.mark.parametrize(("is_back", "findings"), [(False, 0), (True, 1)])
def test_one_that_gives_up_after_its_processes_were_killed_is_none(
    log_file: Path, is_back: bool, findings: int
) -> None:
    end = log_file.with_name("end")
    service = made(log_file, _ENDS_ONCE_TOLD, end)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    service.start()
    ended = service.pid
    try:
        service.kill_child(process.pid)
        if is_back:
            service.note_child_is_back()
        end.touch()
        supervise(service, lambda: service.pid not in (0, ended))
        assert len(service.unexpected_ends) == findings
    finally:
        process.wait()
        service.stop()
