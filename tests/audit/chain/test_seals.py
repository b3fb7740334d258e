"""The chain of the operations log, against somebody who may do everything in the database but does not have the key."""
# ruff: noqa: S608 - constants are put together here

import json
import os
import random
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import override_settings

from audit import log
from audit.chain import checkpoint, sealing
from audit.chain.seals import SEALS, TABLE, seal_after
from audit.chain.verification import find_tampering
from audit.chain.walk import Finding
from audit.migrations._append_only import release_records
from audit.models import LogSeal, OperationRecord, UnsealedRecord, VerifiedRange
from core.configuration_sections import OperationsLogSection
from gateway import tasks
from tests.audit.calls import CALL
from tests.audit.chain.sealed_log import cut_off, execute, fill, key_of, put_into_list, unlist, verify, write_change
from tests.console.pages import text_of
from tests.support.cast import Console, make_person

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back"),
    pytest.mark.sqlite,
]

TAMPERINGS = int(os.environ.get("GATEWAY_FUZZ_EXAMPLES", "250"))
"""A campaign (`make fuzz`) tries more."""


def test_an_untouched_log_is_as_it_was_written() -> None:
    fill(5)
    open_record = write_change()
    sealing.seal_records()
    write_change()
    assert verify() == "The operations log is as it was written: 10 records in 4 seals, 1 not sealed yet.\n"
    log.complete(open_record.id, outcome="unknown", code="AD.Directory.OutcomeUnknown")
    assert not list(find_tampering())
    log.complete(open_record.id, outcome="failed", code="AD.Directory.NotApplied")
    assert not list(find_tampering())
    assert sealing.seal_records() == 2
    assert not list(find_tampering())


def test_sealing_takes_everything_in_bounded_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "RECORDS_OF_A_SEAL", 4)
    for number in range(10):
        write_change(number)
    assert sealing.seal_records() == 10
    assert [(seal.number, seal.records) for seal in LogSeal.objects.order_by("number")] == [(1, 4), (2, 8), (3, 10)]
    assert sealing.seal_records() == 0


def test_a_record_completed_while_it_is_sealed_is_sealed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    record = write_change()

    def seal_late(*arguments: Any, **more: Any) -> LogSeal:
        log.complete(record.id, outcome="succeeded")
        return seal_after(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(sealing, "seal_after", seal_late)
        assert sealing.seal_records() == 2  # as the open record it was, and at once again as it is now
    assert sealing.seal_records() == 0
    assert verify() == "The operations log is as it was written: 1 records in 2 seals, 0 not sealed yet.\n"


def test_of_two_that_seal_at_once_one_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    write_change()

    def seal_late(*arguments: Any, **more: Any) -> LogSeal:
        monkeypatch.setattr(sealing, "seal_after", seal_after)
        assert sealing.seal_records() == 1
        return seal_after(*arguments, **more)

    monkeypatch.setattr(sealing, "seal_after", seal_late)
    assert sealing.seal_records() == 0
    assert LogSeal.objects.count() == 1
    assert not list(find_tampering())


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's plan goes by the table's size")
def test_sealing_does_not_go_through_the_whole_log() -> None:
    plan = sealing._due_records()[: sealing.RECORDS_OF_A_SEAL].explain()
    assert "SCAN audit_unsealedrecord USING INDEX" in plan
    assert "TEMP B-TREE" not in plan


def test_a_forged_record_gets_no_seal() -> None:
    fill(1)
    forged = OperationRecord.objects.latest("id")
    forged.id = uuid4()
    forged.save(force_insert=True)
    sealing.seal_records()
    with pytest.raises(CommandError, match=f"tampered with: record {forged.id} was inserted or changed"):
        verify()


def copy(record_id: UUID, under: UUID) -> None:
    names = ", ".join(field.column for field in OperationRecord._meta.local_concrete_fields if field.column != "id")
    execute(
        f"INSERT INTO {TABLE} (id, {names}) SELECT %s, {names} FROM {TABLE} WHERE id = %s",
        key_of(under),
        key_of(record_id),
    )


class Thief:
    """Somebody with SQL access and without triggers in the way."""

    def __init__(self, seed: int, *, waiting: UUID | None = None, unsealed: UUID | None = None) -> None:
        self.random = random.Random(seed)  # noqa: S311 - chooses what to spoil
        with connection.schema_editor() as editor:
            release_records(apps, editor)
        closed = OperationRecord.objects.exclude(outcome="pending").order_by("id")
        self.ids = list(closed.values_list("id", flat=True))
        self.head = checkpoint.head()
        self.waiting, self.unsealed = waiting, unsealed

    def tamper(self) -> UUID | None:
        """Do something; the record that has to be named, None where a seal itself is spoiled."""
        ways = (
            self.edit,
            self.edit,
            self.delete,
            self.insert,
            self.swap,
            self.reopen,
            self.unseal,
            self.end,
            self.hide,
            self.cut,
            self.spoil,
        )
        return self.random.choice(ways)()

    def edit(self) -> UUID:
        victim = self.random.choice(self.ids)
        column, value = self.random.choice(
            [
                ("owner", "somebody"),
                ("operation", "users.read"),
                ("outcome", "queued"),
                ("code", "X"),
                ("reason", "none"),
                ("server", "dc9"),
                ("changes", "[]" if OperationRecord.objects.get(id=victim).changes else "[1]"),
                ("target_dn", "CN=Else"),
                ("completed_at", "2001-01-01 00:00:00+00:00"),
                ("batch_index", 4711),
                ("mac", "0" * 64),
                ("client_address", None),
            ]
        )
        execute(f"UPDATE {TABLE} SET {column} = %s WHERE id = %s", value, key_of(victim))
        return victim

    def delete(self) -> UUID:
        victim = self.random.choice(self.ids)
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(victim))
        return victim

    def insert(self) -> UUID:
        """A copy of a record under another identifier, which the list need not have."""
        forged, other = uuid4(), self.random.choice(self.ids)
        if self.random.random() < 0.5:
            forged = UUID(int=other.int ^ 1)  # of the same moment
        copy(other, forged)
        if self.random.random() < 0.5:
            unlist(forged)
        if self.random.random() < 0.5:
            put_into_list(other)  # as if another one was there twice
        return forged

    def swap(self) -> UUID:
        """Two records exchange their identifiers."""
        one, other = sorted(self.random.sample(self.ids, 2))
        between = uuid4()
        for old, new in ((one, between), (other, one), (between, other)):
            execute(f"UPDATE {TABLE} SET id = %s WHERE id = %s", key_of(new), key_of(old))
        return one

    def reopen(self) -> UUID:
        """As if a completed change had not been completed."""
        victim = self.random.choice(self.ids[::2])
        execute(
            f"UPDATE {TABLE} SET outcome = 'pending', completed_at = NULL, server = NULL WHERE id = %s", key_of(victim)
        )
        return victim

    def unseal(self) -> UUID:
        """Change a record, to have it sealed again."""
        victim = self.random.choice(self.ids)
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        put_into_list(victim)
        return victim

    def end(self) -> UUID:
        """Complete an open record without the list."""
        execute(f"UPDATE {TABLE} SET outcome = 'failed' WHERE id = %s", key_of(self.waiting))
        unlist(self.waiting)
        return self.waiting

    def hide(self) -> UUID:
        """Delete a record that is to be sealed."""
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(self.unsealed))
        return self.unsealed

    def cut(self) -> None:
        """The newest seals and their records, as if they had never been."""
        cut_off(after=self.random.randrange(LogSeal.objects.latest("number").number))

    def spoil(self) -> None:
        number = self.random.choice(list(LogSeal.objects.values_list("number", flat=True)))
        what = self.random.choice(["records = records + 1", "mac = %s", "number = number + 1000", None])
        if what is None:
            execute(f"DELETE FROM {SEALS} WHERE number = %s", number)
        else:
            given = ["f" * 64] if "%s" in what else []
            execute(f"UPDATE {SEALS} SET {what} WHERE number = %s", *given, number)


def test_every_tampering_is_found_and_named() -> None:
    fill(6)
    waiting = write_change()
    sealing.seal_records()
    thief = Thief(seed=20261121, waiting=waiting.id, unsealed=write_change().id)
    for trial in range(TAMPERINGS):
        with transaction.atomic():
            victim = thief.tamper()
            found = list(find_tampering(thief.head))
            assert found, f"trial {trial} was not found"
            if victim is not None:
                assert victim in {item.record_id for item in found}, f"trial {trial}: {found}"
                assert found[0].record_id is not None
            transaction.set_rollback(True)
    assert not list(find_tampering(thief.head))


def test_a_record_that_was_sealed_again_is_found() -> None:
    """The gateway's own sealer must not make good what somebody spoiled."""
    fill(2)
    thief = Thief(seed=1)
    victim = thief.unseal()
    sealing.seal_records()
    assert next(find_tampering()) == Finding(victim, "was changed")


def test_without_a_mark_only_a_head_tells_that_the_end_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_write", lambda _: None)
    fill(4)
    kept = LogSeal.objects.latest("number").number
    fill(1)
    file = tmp_path / "head.json"
    call_command("export_log_head", file=file)
    fill(1)
    assert "as it was written" in verify(head=file)
    Thief(seed=1)
    cut_off(after=kept)
    VerifiedRange.objects.all().delete()  # it would tell, too
    assert "as it was written" in verify()
    with pytest.raises(CommandError, match="cut or made anew"):
        verify(head=file)


def test_the_head_is_exported(tmp_path: Path) -> None:
    out = StringIO()
    with pytest.raises(CommandError, match="Nothing has been logged"):
        call_command("export_log_head")
    write_change()
    call_command("export_log_head", stdout=out)
    head = json.loads(out.getvalue())
    assert (head["seal"], head["records"], len(head["mac"])) == (1, 1, 64)
    with pytest.raises(CommandError, match="No such file"):
        call_command("export_log_head", file=tmp_path / "missing" / "head.json")
    (tmp_path / "other").write_text("{}")
    with pytest.raises(CommandError, match="is no head"):
        verify(head=tmp_path / "other")


def test_keys_can_be_exchanged() -> None:
    with override_settings(LOG_KEYS=["old"]):
        fill(2)
    with override_settings(LOG_KEYS=["new", "old"]):
        fill(1)
        assert not list(find_tampering())
    with override_settings(LOG_KEYS=["new"]):
        (finding,) = find_tampering()
        assert str(finding).startswith("log key 1 (")
        assert "is missing, which made seals 1 to 2" in str(finding)


def test_a_key_that_is_gone_is_no_tampering() -> None:
    for keys in (["a"], ["b", "a"], ["c", "b", "a"]):
        with override_settings(LOG_KEYS=keys):
            fill(2)
    for keys, missing in ((["c", "a"], "2"), (["b", "a"], "3"), (["a"], "2"), (["d"], "1")):
        with override_settings(LOG_KEYS=keys):
            with pytest.raises(
                CommandError, match=rf"^The operations log cannot be verified: log key {missing} "
            ) as told:
                verify()
            assert "tampered" not in str(told.value)
            page = text_of(Console(make_person(may=["audit.read_log"])).get("/console/log/"))
            assert "Tampered" not in page
            with pytest.raises(CommandError, match="cannot be verified"):
                call_command("expire_operations_log", "--before=2021-06")
    with override_settings(LOG_KEYS=["c", "b", "a"]):
        assert "as it was written" in verify()


def test_records_of_before_an_exchange_are_not_refused() -> None:
    with override_settings(LOG_KEYS=["old"]):
        fill(1)
        waiting = write_change()
    with override_settings(LOG_KEYS=["new"]):
        log.record_refusal(CALL, operation="users.delete", code="Auth.Forbidden")
        assert sealing.seal_records() == 1
        assert UnsealedRecord.objects.get(record_id=waiting.id).sealed_as == "open"
    with override_settings(LOG_KEYS=["new", "old"]):
        assert sealing.seal_records() == 1
        assert not list(find_tampering())


def test_a_seal_that_names_another_key_was_changed() -> None:
    fill(2)
    Thief(seed=1)
    for name, found in (("", "seal 1 was changed"), ("f" * 16, "log key 1 (ffffffffffffffff) is missing")):
        with transaction.atomic():
            execute(f"UPDATE {SEALS} SET key = %s WHERE number = 1", name)
            assert str(next(find_tampering())).startswith(found)
            transaction.set_rollback(True)


def test_a_worker_seals_and_keeps_the_head(tmp_path: Path) -> None:
    file = tmp_path / "head.json"
    kept = OperationsLogSection(HeadFile=str(file))
    with override_settings(CONFIGURATION=settings.CONFIGURATION.model_copy(update={"OperationsLog": kept})):
        tasks.keep_log_head()
        assert not file.exists()
        write_change()
        tasks.seal_log()
        tasks.keep_log_head()
        first = checkpoint.head()
        write_change()
        tasks.seal_log()
        tasks.keep_log_head()
    assert [json.loads(line) for line in file.read_text().split("\n") if line] == [first, checkpoint.head()]
    lost = OperationsLogSection(HeadFile=str(tmp_path / "missing" / "head.json"))
    with override_settings(CONFIGURATION=settings.CONFIGURATION.model_copy(update={"OperationsLog": lost})):
        tasks.keep_log_head()
    assert list(tmp_path.iterdir()) == [file]


def test_the_furthest_of_the_heads_in_a_file_counts() -> None:
    """Whoever may add lines may add an old head, too; and a line may have been cut off."""
    old, new = {"seal": 1, "mac": "a"}, {"seal": 2, "mac": "b"}
    text = "".join(f"{json.dumps(head)}\n" for head in (old, new, old))
    assert checkpoint.latest_head(text)["seal"] == checkpoint.latest_head(text + '{"seal": 3, "m')["seal"] == 2
    for nothing in ("", '{"seal": 3, "m', "{}", "[]\n", '{"seal": 1}\n', "no\n" + text):
        with pytest.raises(ValueError, match="no head"):
            checkpoint.latest_head(nothing)


def test_a_head_that_was_cut_off_spoils_no_later_one(tmp_path: Path) -> None:
    """Where nothing can be taken back it stays there for good."""
    file = tmp_path / "head.json"
    write_change()
    tasks.seal_log()
    found = checkpoint.head()
    assert found is not None
    checkpoint.append_head(found, file)
    whole = file.read_text()
    for length in range(len(whole)):
        file.write_text(whole + whole[:length])
        checkpoint.append_head({**found, "seal": 2}, file)
        assert checkpoint.latest_head(file.read_text())["seal"] == 2, length
