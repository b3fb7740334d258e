"""What stops a restore before anything is touched. A backup that is restored is in the installation's test."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import LazySettings
from django.core.management import CommandError, call_command
from django.db import connection

from core.secrets.keyring import new_encryption_key
from gateway.management import backups
from gateway.monitoring import workers
from lab.directory import random_name
from lab.redis import RedisServer
from tests.support.environment import postgres_url
from tests.support.migrated import MIGRATED

pytestmark = pytest.mark.django_db


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A description without a dump: whoever got as far as loading it would fail in another way."""
    monkeypatch.setattr(backups, "_dump", lambda file: file.touch())
    return backups.make(tmp_path)


def describe(backup: Path, **changed: Any) -> None:
    beside = backup.with_suffix(".json")
    beside.write_text(json.dumps({**json.loads(beside.read_text()), **changed}))


def refusal(backup: Path, **options: Any) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("restore", backup, **options)
    return str(refused.value)


def test_a_database_with_anything_in_it_is_left_alone(backup: Path, redis_server: RedisServer) -> None:
    assert "not empty" in refusal(backup)
    workers.send_heartbeat("celery@here")
    try:
        assert "celery@here gave a sign of life" in refusal(backup, replace=True)
    finally:
        workers.remove_heartbeat("celery@here")


def test_keys_that_are_gone_are_named(backup: Path, redis_server: RedisServer, settings: LazySettings) -> None:
    settings.ENCRYPTION_KEYS = [new_encryption_key()]
    settings.LOG_KEYS = ["k" * 40]
    told = refusal(backup, replace=True)
    assert "encryption key 1, log key 1" in told


def test_what_is_no_backup_of_this_gateway(backup: Path, redis_server: RedisServer) -> None:
    other = "sqlite" if connection.vendor == "postgresql" else "postgresql"
    describe(backup, database=other)
    assert f"is of {other}" in refusal(backup, replace=True)
    backup.with_suffix(".json").write_text("{}")
    assert "does not describe a backup" in refusal(backup, replace=True)
    backup.with_suffix(".json").unlink()
    assert "No such file" in refusal(backup, replace=True)


def test_older_ones_are_removed(backup: Path) -> None:
    for day in ("01", "02", "03"):
        older = backup.with_name(f"gateway-202001{day}T000000Z{backup.suffix}")
        older.touch()
        older.with_suffix(".json").touch()
    assert backups.expire(backup.parent, 2) == 2
    left = sorted(file.name for file in backup.parent.iterdir())
    assert left == sorted(
        [
            backup.name,
            backup.with_suffix(".json").name,
            f"gateway-20200103T000000Z{backup.suffix}",
            "gateway-20200103T000000Z.json",
        ]
    )


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite copies a file")
class TestRestoring:
    """The log and its months are replaced, or everything stays as it was."""

    @pytest.fixture
    def url(self) -> Iterator[str]:
        """A database with the tables of the gateway."""
        name = random_name("restored")
        with psycopg.connect(postgres_url("postgres"), autocommit=True) as server:
            server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{MIGRATED}"')
            yield postgres_url(name)
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    @pytest.fixture
    def dump(self, url: str, tmp_path: Path) -> Path:
        file = tmp_path / "some.dump"
        subprocess.run(["pg_dump", "--format", "custom", "--no-owner", "--file", str(file), url], check=True)
        return file

    @staticmethod
    def load(dump: Path, url: str) -> None:
        backups._restore_dump(dump, psycopg.conninfo.conninfo_to_dict(url))

    @staticmethod
    def state(url: str) -> set[str]:
        with psycopg.connect(url) as database:
            found = database.execute("SELECT relname FROM pg_class UNION ALL SELECT tgname FROM pg_trigger").fetchall()
        return {name for (name,) in found if not name.startswith(("pg_toast", "RI_ConstraintTrigger"))}

    def test_a_log_with_months_is_replaced(self, url: str, dump: Path) -> None:
        before = self.state(url)
        assert any(name.endswith("_later") for name in before)
        with psycopg.connect(url) as database:
            database.execute("INSERT INTO audit_changeclaim VALUES (gen_random_uuid(), gen_random_uuid())")
        for _ in range(2):
            self.load(dump, url)
            assert self.state(url) == before
        with psycopg.connect(url) as database:
            assert database.execute("SELECT count(*) FROM audit_changeclaim").fetchone() == (0,)

    def test_a_dump_that_is_cut_off_changes_nothing(self, url: str, dump: Path) -> None:
        before = self.state(url)
        with psycopg.connect(url) as database:
            database.execute("INSERT INTO audit_changeclaim VALUES (gen_random_uuid(), gen_random_uuid())")
        dump.write_bytes(dump.read_bytes()[: -dump.stat().st_size // 4])
        with pytest.raises(backups.BackupFailed, match="pg_restore"):
            self.load(dump, url)
        assert self.state(url) == before
        with psycopg.connect(url) as database:
            assert database.execute("SELECT count(*) FROM audit_changeclaim").fetchone() == (1,)
