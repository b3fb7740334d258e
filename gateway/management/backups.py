"""Backups of the database, each with a JSON file that describes it and names the keys that it needs.

The keys themselves are not included: a stolen backup alone reveals no secret and allows no forged log. The description
has the head of the log, with which a restore compares the restored log.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo
from typing_extensions import TypedDict

from audit.chain import checkpoint, months, sealing
from audit.chain.checkpoint import Head
from audit.chain.seals import name_of_key
from core.secrets.encryption import name_of_encryption_key
from gateway.models import NotedBackup

DISTRIBUTION = "directory-management-gateway"
_SUFFIXES = {"postgresql": ".dump", "sqlite": ".sqlite3"}
_NOT_LIBPQ = frozenset({"password", "cursor_factory", "context", "prepare_threshold", "client_encoding"})


class BackupFailed(Exception):
    """A backup or a restore failed; the text is for the administrator."""


class Description(TypedDict):
    """The content of a description file. The names of keys are digests that do not reveal them."""

    madeAt: str
    release: str
    database: str
    logHead: Head | None
    encryptionKeys: list[str]
    logKeys: list[str]


def release() -> str:
    """The installed version, or "source tree"."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "source tree"


def make(folder: Path) -> Path:
    """Back up the database into the folder, note the backup, and return its file; raises BackupFailed.

    Log records written meanwhile may be in it; those up to the head in its description certainly are.
    """
    now = datetime.now(UTC)
    made = folder / f"gateway-{now:%Y%m%dT%H%M%SZ}{_SUFFIXES[connection.vendor]}"
    if made.exists():
        raise BackupFailed(f"{made} is there already")
    sealing.seal_records()
    description: Description = {
        "madeAt": now.isoformat(timespec="seconds"),
        "release": release(),
        "database": connection.vendor,
        "logHead": checkpoint.head(),
        "encryptionKeys": [name_of_encryption_key(key) for key in settings.ENCRYPTION_KEYS],
        "logKeys": [name_of_key(key) for key in settings.LOG_KEYS],
    }
    partial = made.with_name(f".{made.name}.partial")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _dump(partial)
        made.with_suffix(".json").write_text(json.dumps(description, indent=1) + "\n", "utf-8")
        partial.replace(made)
        NotedBackup.objects.create(
            file=str(made),
            made_at=now,
            encryption_keys=description["encryptionKeys"],
            log_keys=description["logKeys"],
        )
    except OSError as error:
        raise BackupFailed(f"{error.filename or folder}: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)
    return made


def expire(folder: Path, keep: int) -> int:
    """Remove all but the `keep` newest backups of the folder, and their notes; return how many were removed."""
    found = sorted(folder.glob(f"gateway-*{_SUFFIXES[connection.vendor]}"))
    surplus = found[:-keep]
    for file in surplus:
        file.unlink()
        file.with_suffix(".json").unlink(missing_ok=True)
    NotedBackup.objects.filter(file__in=map(str, surplus)).delete()
    return len(surplus)


def describe(file: Path) -> Description:
    """Return the description of a backup; raises BackupFailed."""
    description_file = file.with_suffix(".json")
    try:
        found: Description = json.loads(description_file.read_text("utf-8"))
        if not Description.__required_keys__ <= found.keys():
            raise ValueError
    except OSError as error:
        raise BackupFailed(f"{description_file}: {error.strerror}") from None
    except ValueError:
        raise BackupFailed(f"{description_file}: does not describe a backup") from None
    if found["database"] != connection.vendor:
        raise BackupFailed(f"{file} is of {found['database']}, and this gateway works with {connection.vendor}")
    return found


def missing_keys(description: Description) -> list[str]:
    """The keys that a backup needs and that are not configured, in words."""
    known = {name_of_encryption_key(key) for key in settings.ENCRYPTION_KEYS}
    known_log_keys = {name_of_key(key) for key in settings.LOG_KEYS}
    return [
        *(f"encryption key {n}" for n, key in enumerate(description["encryptionKeys"], 1) if key not in known),
        *(f"log key {n}" for n, key in enumerate(description["logKeys"], 1) if key not in known_log_keys),
    ]


def load(file: Path) -> None:
    """Replace the content of the database with the backup; raises BackupFailed."""
    parameters = connection.get_connection_params()
    connection.close()
    if connection.vendor == "sqlite":
        _copy_sqlite(file, parameters["database"])
        return
    _restore_dump(file, parameters)
    _drop_other_tables(file)


def _restore_dump(file: Path, parameters: Mapping[str, Any]) -> None:
    """Have psql carry out what pg_restore says, in one transaction, committed only once all of it has been said.

    pg_restore alone does not replace a log with months: it drops them one by one, which PostgreSQL refuses.
    """
    environment = _environment_of_tools(parameters.get("password"))
    options = ("--clean", "--if-exists", "--no-owner", "--no-privileges", "--file", "-")
    with TemporaryFile() as complaints:
        psql = subprocess.Popen(  # noqa: S603 - PostgreSQL's program with our arguments
            [_tool("psql"), "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", _conninfo(parameters)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=complaints,
        )  # fmt: skip
        assert psql.stdin is not None
        with suppress(BrokenPipeError), psql.stdin as script:
            script.write(b"SET client_min_messages = warning; BEGIN;\n")
            script.write(f"DROP TABLE IF EXISTS {months.TABLE} CASCADE;\n".encode())
            script.flush()
            said = subprocess.run(  # noqa: S603
                [_tool("pg_restore"), *options, str(file)],
                env=environment,
                stdout=script,
                stderr=complaints,
                check=False,
            )
            if said.returncode == 0:
                script.write(b"\nCOMMIT;\n")
        if psql.wait() or said.returncode:
            complaints.seek(0)
            raise BackupFailed(f"pg_restore: {complaints.read().decode(errors='replace').strip()}")


def _drop_other_tables(file: Path) -> None:
    """Drop tables that are not in the backup, since a later release made them; migrations would fail on them."""
    listed = set(re.findall(r" TABLE public (\S+) ", _run_tool("pg_restore", "--list", str(file))))
    with connection.cursor() as cursor:
        for table in set(connection.introspection.table_names()) - listed:
            cursor.execute(f"DROP TABLE {connection.ops.quote_name(table)} CASCADE")


def is_empty() -> bool:
    """Whether the database has no tables."""
    return not connection.introspection.table_names()


def _dump(file: Path) -> None:
    parameters = connection.get_connection_params()
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    if connection.vendor == "sqlite":
        _copy_sqlite(parameters["database"], file)
        return
    _run_tool(
        "pg_dump",
        *("--format", "custom", "--no-owner", "--no-privileges", "--file", str(file)),
        *("--dbname", _conninfo(parameters)),
        password=parameters.get("password"),
    )


def _copy_sqlite(source: Path | str, target: Path | str) -> None:
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
        read.backup(written)


def _conninfo(parameters: Mapping[str, Any]) -> str:
    """The connection string for libpq, without the password, since other accounts can see a process' arguments."""
    return make_conninfo(**{name: value for name, value in parameters.items() if name not in _NOT_LIBPQ and value})


def _run_tool(name: str, *arguments: str, password: str | None = None) -> str:
    completed = subprocess.run(  # noqa: S603 - PostgreSQL's program with our arguments
        [_tool(name), *arguments], env=_environment_of_tools(password), capture_output=True, text=True, check=False
    )
    if completed.returncode != 0:
        raise BackupFailed(f"{name}: {completed.stderr.strip()}")
    return completed.stdout


def _tool(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        raise BackupFailed(f"{name} is not installed (Debian: postgresql-client)")
    return program


def _environment_of_tools(password: str | None) -> dict[str, str]:
    return {**os.environ, **({"PGPASSWORD": password} if password else {})}
