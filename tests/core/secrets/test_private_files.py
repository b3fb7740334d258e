"""No other account of the machine reads what the gateway keeps: files that it makes, and files that it finds."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from core.configuration import BadConfiguration
from core.secrets.private_files import database_files, require_private, require_private_directory
from lab.commands import PROJECT, manage_command


def manage(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A management command on SQLite in this directory, started by somebody who lets others read everything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GATEWAY_", "DATABASE_"))}
    return subprocess.run(
        manage_command(*arguments),
        env={**kept, "GATEWAY_ENVIRONMENT": "Development", "GATEWAY_DATA_DIR": str(place)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        umask=0,
    )


def modes(place: Path) -> dict[str, int]:
    """What others than the owner may do with each file, where it is anything."""
    found = {str(path.relative_to(place)): stat.S_IMODE(path.stat().st_mode) for path in (place, *place.rglob("*"))}
    assert len(found) > 3
    return {name: mode for name, mode in found.items() if mode & 0o077}


def test_all_that_is_made_is_private(tmp_path: Path) -> None:
    place = tmp_path / "data"
    done = manage(place, "migrate", "contenttypes", "-v0")  # the database is a file whatever is in it
    assert done.returncode == 0, done.stderr
    assert modes(place) == {}


def test_what_was_left_open_is_closed(tmp_path: Path) -> None:
    manage(tmp_path, "check")
    database = tmp_path / "gateway.sqlite3"
    files = [*database_files(database), tmp_path / "secret-key", tmp_path / "encryption-keys"]
    for file in files:
        file.touch()
        file.chmod(0o666)
    tmp_path.chmod(0o777)
    done = manage(tmp_path, "check")
    assert done.returncode == 0, done.stderr
    assert modes(tmp_path) == {".": 0o755}
    assert all(f"{file} was open to other accounts" in done.stderr for file in files)
    assert "open to other accounts" not in manage(tmp_path, "check").stderr


def test_what_cannot_be_closed_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret-key"
    file.touch()
    file.chmod(0o640)
    tmp_path.chmod(0o770)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(BadConfiguration, match=re.escape(str(file))):
        require_private(file)
    with pytest.raises(BadConfiguration, match="GATEWAY_DATA_DIR"):
        require_private_directory(tmp_path, "GATEWAY_DATA_DIR")


def test_a_directory_that_is_shared_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(BadConfiguration, match="GATEWAY_DATA_DIR"):
        require_private_directory(tmp_path, "GATEWAY_DATA_DIR")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


@pytest.mark.parametrize(
    "start",
    [
        "import gateway.application",
        "from gateway.celery import app; app.conf.task_acks_late",
        "import demo.run as d; d.main()",
    ],
)
def test_every_process_makes_private_files(start: str, tmp_path: Path) -> None:
    """The web server's workers, Celery's, and the demonstration with all that it starts (refused here by its port)."""
    done = subprocess.run(
        [sys.executable, "-c", f"import os; {start}; print(oct(os.umask(0)))"],
        env=os.environ | {"PORT": "none"},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        umask=0,
    )
    assert done.stdout.splitlines()[-1:] == ["0o77"], done.stderr
