"""Backups of the database, each with a file beside it that says what it is and which keys belong to it.

The keys themselves are not in it: whoever finds a backup alone reads no secret in it and forges no log. What a backup
says of the log's end is compared when it is restored.
"""

import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo
from typing_extensions import TypedDict

from audit.chain import head_export, sealing
from audit.chain.head_export import Head
from audit.chain.seals import name_of_key
from core.secrets.digests import name_of_encryption_key
from gateway.models import NotedBackup

DISTRIBUTION: Final = "directory-management-gateway"
_SUFFIXES: Final = {"postgresql": ".dump", "sqlite": ".sqlite3"}
_OF_DJANGO: Final = frozenset({"password", "cursor_factory", "context", "prepare_threshold", "client_encoding"})


class BackupFailed(Exception):
    """What went wrong, for whoever runs the command."""


class Description(TypedDict):
    """What is written beside a backup. Keys are named by codes that tell nothing of them."""

    madeAt: str
    release: str
    database: str
    logHead: Head | None
    encryptionKeys: list[str]
    logKeys: list[str]


def release() -> str:
    """The version that is installed, or that the source tree is."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "source tree"


def make(folder: Path) -> Path:
    """Back the database up into the folder and note it; the file that was made. Raises BackupFailed.

    Whatever is logged meanwhile may be in it; what the head beside it says is in it certainly.
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
        "logHead": head_export.head(),
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
    """Remove all but the newest backups of the folder, and their notes; how many were removed."""
    found = sorted(folder.glob(f"gateway-*{_SUFFIXES[connection.vendor]}"))
    surplus = found[:-keep]
    for file in surplus:
        file.unlink()
        file.with_suffix(".json").unlink(missing_ok=True)
    NotedBackup.objects.filter(file__in=map(str, surplus)).delete()
    return len(surplus)


def describe(file: Path) -> Description:
    """What was written beside a backup; raises BackupFailed."""
    beside = file.with_suffix(".json")
    try:
        found: Description = json.loads(beside.read_text("utf-8"))
        if not Description.__required_keys__ <= found.keys():
            raise ValueError
    except OSError as error:
        raise BackupFailed(f"{beside}: {error.strerror}") from None
    except ValueError:
        raise BackupFailed(f"{beside}: does not describe a backup") from None
    if found["database"] != connection.vendor:
        raise BackupFailed(f"{file} is of {found['database']}, and this gateway works with {connection.vendor}")
    return found


def missing_keys(description: Description) -> list[str]:
    """Which keys of the backup are not configured, in words."""
    known = {name_of_encryption_key(key) for key in settings.ENCRYPTION_KEYS}
    known_of_log = {name_of_key(key) for key in settings.LOG_KEYS}
    return [
        *(f"encryption key {n}" for n, key in enumerate(description["encryptionKeys"], 1) if key not in known),
        *(f"log key {n}" for n, key in enumerate(description["logKeys"], 1) if key not in known_of_log),
    ]


def load(file: Path) -> None:
    """Put the backup in the place of whatever is in the database; raises BackupFailed."""
    parameters = connection.get_connection_params()
    connection.close()
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(parameters["database"])) as target:
            source.backup(target)
        return
    _run_tool(
        "pg_restore",
        *("--clean", "--if-exists", "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"),
        *("--dbname", _conninfo(parameters), str(file)),
        password=parameters.get("password"),
    )
    _drop_tables_besides(file)


def _drop_tables_besides(file: Path) -> None:
    """What a later release made and the backup knows nothing of: migrations will make it again."""
    listed = set(re.findall(r" TABLE public (\S+) ", _run_tool("pg_restore", "--list", str(file))))
    with connection.cursor() as cursor:
        for table in set(connection.introspection.table_names()) - listed:
            cursor.execute(f"DROP TABLE {connection.ops.quote_name(table)} CASCADE")


def is_empty() -> bool:
    """Whether the database has no table at all."""
    return not connection.introspection.table_names()


def _dump(file: Path) -> None:
    parameters = connection.get_connection_params()
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(parameters["database"])) as source, closing(sqlite3.connect(file)) as target:
            source.backup(target)
        return
    _run_tool(
        "pg_dump",
        *("--format", "custom", "--no-owner", "--no-privileges", "--file", str(file)),
        *("--dbname", _conninfo(parameters)),
        password=parameters.get("password"),
    )


def _conninfo(parameters: Mapping[str, Any]) -> str:
    """How libpq reaches the database, without the password: others see the arguments of a process."""
    return make_conninfo(**{name: value for name, value in parameters.items() if name not in _OF_DJANGO and value})


def _run_tool(name: str, *arguments: str, password: str | None = None) -> str:
    program = shutil.which(name)
    if program is None:
        raise BackupFailed(f"{name} is not installed (Debian: postgresql-client)")
    environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL's with arguments of ours
        [program, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BackupFailed(f"{name}: {done.stderr.strip()}")
    return done.stdout
