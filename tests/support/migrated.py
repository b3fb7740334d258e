"""Databases that were migrated once for each state of the migrations, then copied: 10 s saved in every test process."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.clock import CLOCK
from lab.commands import PROJECT
from lab.domain import TEMPLATES
from lab.postgres import Postgres
from tests.support.environment import POSTGRES, RUNTIME, postgres_url

MIGRATED = "migrated"
"""The database of a copied cluster that others are made from."""


def copy_postgres() -> Postgres:
    """A cluster with the database `migrated`, where this process's own belongs; not started yet."""
    with _template("postgres") as template:
        if not template.exists():
            making = Postgres(RUNTIME / "migrating")  # the path of a socket is too short for most checkouts
            making.start_and_wait()
            try:
                making.create_database(MIGRATED)
                _migrate(postgres_url(MIGRATED, at=making.directory))
            finally:
                making.stop()
            _copy(making.directory, template)
        _copy(template, POSTGRES)
    # The transaction around a test is idle as long as the test is; the gateway leaves what the server has decided.
    return Postgres(POSTGRES, options=("idle_in_transaction_session_timeout=1h",))


def copy_sqlite(file: Path) -> None:
    """The same for SQLite, as a file."""
    with _template("sqlite") as template:
        if not template.exists():
            making = RUNTIME / "migrating.sqlite3"
            _migrate(f"sqlite:///{making}")
            _copy(making, template)
        shutil.copyfile(template, file)


def _migrate(url: str) -> None:
    environment = os.environ | {"DATABASE_URL": url}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The tests' database cannot be migrated:\n{done.stdout}{done.stderr}")


@contextmanager
def _template(kind: str) -> Iterator[Path]:
    """Where the template of the migrations as they are belongs; while one process makes it, the others wait."""
    sources = sorted(PROJECT.glob("*/migrations/*.py"))
    contents = [PROJECT / "requirements.txt", *sources, Path(__file__), PROJECT / "lab" / "postgres.py"]
    state = hashlib.sha256(CLOCK.encode())
    for source in contents:
        state.update(f"{source.name}\n".encode() + source.read_bytes())
    template = TEMPLATES / f"{kind}-{state.hexdigest()[:12]}"
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    with (TEMPLATES / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            for outdated in TEMPLATES.glob(f"{kind}-*"):
                shutil.rmtree(outdated) if outdated.is_dir() else outdated.unlink()
        yield template


def _copy(source: Path, target: Path) -> None:
    """With owners and modes, which PostgreSQL insists on; whole or not at all, whoever is killed meanwhile."""
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    subprocess.run(["cp", "--archive", source, part], check=True)
    part.rename(target)
