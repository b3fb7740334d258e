"""The archive of a month, which verifies without the database."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from audit.chain import archive
from audit.chain.removals import find_removals
from audit.chain.seals import SEALS, TABLE
from audit.chain.verification import find_seals_by_key
from audit.chain.verified_ranges import Course, forget_ranges
from audit.chain.walk import Walk
from audit.models import LogSeal, OperationRecord
from lab.commands import PROJECT
from tests.audit.chain.sealed_log import execute, key_of
from tests.audit.chain.test_retention import MONTHS, expire, fill, lift_guards, write_change
from tests.audit.conftest import In

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back", "seals_stay"),
    pytest.mark.sqlite,
]


def write(file: Path, month: str = "2021-05") -> str:
    out = StringIO()
    call_command("archive_operations_log", f"--month={month}", f"--file={file}", stdout=out)
    return out.getvalue()


def verify(file: Path) -> str:
    out = StringIO()
    call_command("verify_operations_log", f"--archive={file}", stdout=out)
    return out.getvalue()


def test_a_month_in_a_file(now_is: In, tmp_path: Path) -> None:
    written, file = fill(now_is), tmp_path / "may.gz"
    now_is(MONTHS[0] + timedelta(days=9))
    still_open = write_change()
    assert write(file) == f"8 records of 2021-05 are in {file}.\n"
    header, *records, last = map(json.loads, gzip.decompress(file.read_bytes()).splitlines())
    assert (header["month"], last["records"]) == ("2021-05", 8)
    assert {each["id"] for each in records} == set(map(str, written[MONTHS[0]]))
    assert still_open.id not in {each["id"] for each in records}
    stored = OperationRecord.objects.get(id=written[MONTHS[0]][0])
    found = next(each for each in records if each["id"] == str(stored.id))
    assert (found["owner"], found["outcome"], found["changes"]) == (stored.owner, "succeeded", stored.changes)
    assert expire("2021-06") == "8 records from before 2021-06 were removed.\n"
    assert verify(file) == "The archive of 2021-05 is as it was written: 8 records.\n"
    with pytest.raises(CommandError, match="File exists"):
        write(file)
    with pytest.raises(CommandError, match="is not there any more"):
        write(tmp_path / "again.gz")
    assert list(tmp_path.iterdir()) == [file], "what was refused leaves no file"
    now_is(timezone.now())


def test_it_verifies_on_another_machine(now_is: In, tmp_path: Path) -> None:
    """With the keys, and no database at all; even without the gateway, by one file and a bare Python."""
    fill(now_is)
    now_is(timezone.now())
    file = tmp_path / "may.gz"
    write(file)
    environment = os.environ | {"DATABASE_URL": f"sqlite:///{tmp_path}/missing/no.sqlite3", "REDIS_URL": ""}
    environment |= {"GATEWAY_LOG_KEYS": ",".join(settings.LOG_KEYS), "GATEWAY_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "manage.py", "verify_operations_log", f"--archive={file}"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "The archive of 2021-05 is as it was written: 8 records.\n", done.stderr
    shutil.copy(PROJECT / "audit" / "verify_evidence.py", tmp_path)
    keys = {"GATEWAY_LOG_KEYS": ", ".join(["another", *settings.LOG_KEYS])}
    for environment, status in ((keys, 0), ({}, 1)):
        command = [sys.executable, "-I", "-S", "verify_evidence.py", file.name]
        alone = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert alone.returncode == status
        assert alone.stdout == (done.stdout if status == 0 else "")
    assert "under any of the log keys" in alone.stderr


def test_every_change_of_the_file_is_found(now_is: In, tmp_path: Path) -> None:
    fill(now_is)
    now_is(timezone.now())
    file, spoiled = tmp_path / "may.gz", tmp_path / "spoiled.gz"
    write(file)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    other = json.dumps({**json.loads(lines[-1]), "records": 7}).encode()
    swapped = [lines[0], lines[2], lines[1], *lines[3:]]
    for changed in (
        *(lines[:number] + lines[number + 1 :] for number in range(len(lines))),  # any one is missing
        [*lines, lines[-1]],
        swapped,
        [lines[0].replace(b"2021-05", b"2021-06"), *lines[1:]],
        [line.replace(b"dc1", b"dc2").replace(b"users.update", b"users.delete") for line in lines],
        [*lines[:-1], other],
        [*lines[:-1], json.dumps({**json.loads(lines[-1]), "note": "x"}).encode()],
        [*lines[:-1], b"{}"],
        [*lines[:-1], b"[]"],
        [b"x\n"],
        [],
    ):
        spoiled.write_bytes(gzip.compress(b"".join(changed)))
        with pytest.raises(CommandError, match=r"It was changed|It is cut off"):
            verify(spoiled)
    whole = file.read_bytes()
    for length in range(0, len(whole), 41):
        spoiled.write_bytes(whole[:length])
        with pytest.raises(CommandError, match=r"It was changed|It is cut off"):
            verify(spoiled)
    with override_settings(LOG_KEYS=["another"]), pytest.raises(CommandError, match="under any of the log keys"):
        verify(file)
    with override_settings(LOG_KEYS=["another", *settings.LOG_KEYS]):
        assert "as it was written" in verify(file)
    with pytest.raises(CommandError, match="No such file"):
        verify(tmp_path / "missing")


def test_what_was_verified_is_not_read_again(now_is: In, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(now_is)
    expire("2021-06")
    now_is(timezone.now())
    call_command("verify_operations_log", stdout=StringIO())
    last, removal = LogSeal.objects.latest("number").number, Course.after_last().last_removal()
    assert removal
    assert (removal.seal, removal.kept_from) == (last, find_removals()[-1].kept_from)
    with override_settings(LOG_KEYS=["another", *settings.LOG_KEYS]):
        fill(now_is, 1)
        call_command("verify_operations_log", "--continue", stdout=StringIO())
        keys, newest = find_seals_by_key(), LogSeal.objects.latest("number").number
        assert [*keys.values()] == [(1, last), (last + 1, newest)]
        with CaptureQueriesContext(connection) as queries:
            find_seals_by_key()
        assert any("GROUP BY" in each["sql"] and f"> {newest}" in each["sql"] for each in queries)
        with monkeypatch.context() as patch:
            patch.setattr(Walk, "_check_seal", lambda _, seal: pytest.fail(f"seal {seal.number} is verified again"))
            write(tmp_path / "june.gz", "2021-06")
        lift_guards()
        named = LogSeal.objects.filter(number__lt=last).order_by("-records", "-number")[0]
        execute(f"UPDATE {SEALS} SET entries = %s WHERE number = %s", bytes(named.entries)[49:], named.number)  # noqa: S608
        with pytest.raises(CommandError, match=f"tampered with: seal {named.number} was changed"):
            [write(tmp_path / f"{month}.gz", month) for month in ("2021-06", "2021-07")]
        forget_ranges()
        assert find_seals_by_key() == keys


def test_what_is_refused(now_is: In, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, file = fill(now_is), tmp_path / "file"
    now_is(timezone.now())
    with pytest.raises(CommandError, match="month that is over"):
        write(file, f"{timezone.now():%Y-%m}")
    with pytest.raises(CommandError, match="is no month"):
        write(file, "May")
    with monkeypatch.context() as patch:  # between verifying and writing
        patch.setattr(archive, "find_tampering", lambda **_: iter(()))
        lift_guards()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(written[MONTHS[0]][1]))  # noqa: S608
        with pytest.raises(CommandError, match=f"tampered with: record {written[MONTHS[0]][1]} was changed"):
            write(file)
        forged = OperationRecord.objects.filter(id=written[MONTHS[1]][0]).values().get()
        forged["id"] = type(forged["id"])(int=forged["id"].int + 1)
        OperationRecord(**forged).save(force_insert=True)
        execute("DELETE FROM audit_unsealedrecord")
        with pytest.raises(CommandError, match="do not name each record"):
            write(file, "2021-06")
    with pytest.raises(CommandError, match=f"was tampered with: record {written[MONTHS[0]][1]} was changed"):
        write(file)
    assert not file.exists()
