"""Going on from what was verified, against somebody who may do everything in the database but does not have the key."""
# ruff: noqa: S608 - constants are put together here

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.cache import cache
from django.core.management import CommandError
from django.utils import timezone

from audit import log
from audit.chain import sealing, verification, verified_ranges, verifying
from audit.chain.seals import SEALS, TABLE
from audit.chain.verification import course_after_last, find_tampering
from audit.chain.verified_ranges import Course, find_ranges, new_run, verify_range_of
from audit.chain.walk import Progress, Walk
from audit.models import LogSeal, LogVerification, OperationRecord, VerifiedRange
from tests.audit.chain.sealed_log import (
    cut_off,
    execute,
    fill,
    key_of,
    put_into_list,
    unlist,
    verify,
    write_change,
)
from tests.audit.chain.test_seals import Thief, copy

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("guards_come_back"),
    pytest.mark.sqlite,
]


def thief() -> Thief:
    """Take the guards off."""
    return Thief(seed=1)


def newest() -> int:
    return int(LogSeal.objects.latest("number").number)


def go_on() -> list[str]:
    """What a verification of what is new finds."""
    return [str(finding) for finding in find_tampering(None, None, course_after_last())]


def kept() -> list[tuple[int, int]]:
    return [(each.learnt.first, each.learnt.last) for each in find_ranges()]


def is_read(seals: list[int]) -> Callable[..., Any]:
    """A check that notes which seals it is given."""
    original = Walk._check_seal

    def check(self: Walk, seal: LogSeal) -> Any:
        seals.append(seal.number)
        return original(self, seal)

    return check


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seals that were verified."""
    seals: list[int] = []
    monkeypatch.setattr(Walk, "_check_seal", is_read(seals))
    return seals


def fill_often() -> list[UUID]:
    """Records in ten seals, some open when they are sealed first."""
    return [record_id for _ in range(5) for record_id in fill(1)]


class Killed(BaseException):
    """What a process is ended by."""


def kill_after(seals: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original, count = Walk._check_seal, iter(range(seals))

    def check(self: Walk, seal: LogSeal) -> Any:
        if next(count, None) is None:
            raise Killed
        return original(self, seal)

    monkeypatch.setattr(Walk, "_check_seal", check)


def test_it_works(read: list[int]) -> None:
    fill(4)
    first = newest()
    assert "as it was written: 8 records in" in verify()
    assert kept() == [(1, first)]
    read.clear()
    assert "0 records in 0 seals" in verify(continued=True)
    fill(2)
    told = verify(continued=True)
    assert "What is new in the operations log is as it was written: 4 records in" in told
    assert f"from seal {first + 1} on" in told
    assert read == list(range(first + 1, newest() + 1))
    assert kept() == [(first + 1, newest()), (1, first)]
    (stored,) = LogVerification.objects.all()
    assert (stored.first_seal, stored.finding) == (first + 1, None)
    assert verification.last_verification() is not None
    assert "as it was written: 12 records in" in verify()
    assert kept() == [(1, newest())]
    assert LogVerification.objects.get().first_seal is None


def test_a_record_that_is_open_from_one_night_to_the_next() -> None:
    first, second = write_change(1), write_change(2)
    sealing.seal_records()
    verify()
    log.complete(first.id, outcome="succeeded")
    sealing.seal_records()
    assert not go_on()
    assert not go_on()
    log.complete(second.id, outcome="failed", code="AD.Directory.NotApplied")
    assert not go_on()
    sealing.seal_records()
    assert not go_on()
    assert not list(find_tampering())


def test_the_whole_log_is_read_once_a_week(monkeypatch: pytest.MonkeyPatch, read: list[int]) -> None:
    fill(3)
    verify()
    read.clear()
    verify(continued=True)
    assert not read
    monkeypatch.setattr(verifying, "WHOLE_AFTER", timedelta())
    assert "from seal" not in verify(continued=True)
    assert read == list(range(1, newest() + 1))


class TestThieves:
    """What is new is verified as strictly as ever, and nothing is gained by what is done to the ranges."""

    def test_new_records(self) -> None:
        """Whatever is done to new records shows."""
        fill(3)
        verify()
        written = fill(3)
        changed, deleted = written[1], written[3]
        thief()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(changed))
        execute(f"DELETE FROM {TABLE} WHERE id = %s", key_of(deleted))
        copy(written[0], forged := UUID(int=written[0].int ^ 1))
        unlist(forged)
        assert go_on() == [
            f"record {changed} was changed",
            f"record {deleted} was deleted",
            f"record {forged} is in no seal",
        ]

    def test_what_is_completed_without_a_seal(self) -> None:
        record = write_change()
        sealing.seal_records()
        verify()
        thief()
        execute(f"UPDATE {TABLE} SET outcome = 'failed' WHERE id = %s", key_of(record.id))
        unlist(record.id)
        assert go_on() == [f"record {record.id} is in no seal as it is"]

    def test_an_old_record_is_read_again_with_the_whole_log(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The limit that the documentation tells of. What was found is not forgotten for what is new."""
        victim = fill(3)[1]
        verify()
        fill(1)
        thief()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        assert not go_on()
        found = f"record {victim} was changed"
        with pytest.raises(CommandError, match=found):
            verify()
        for _ in range(2):
            with pytest.raises(CommandError, match=found):
                verify(continued=True)
        LogVerification.objects.all().delete()  # as if nothing had been found
        with pytest.raises(CommandError, match=found):
            verify(continued=True)

    def test_an_old_record_that_is_changed_and_sealed_again(self) -> None:
        victim = fill(3)[1]
        verify()
        thief()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        put_into_list(victim)
        fill(1)
        assert go_on() == [f"record {victim} was changed"]

    def test_an_old_record_sealed_again_hides_no_forged_one(self) -> None:
        """Each record counts once, in whichever seals it is."""
        written = fill(3)
        verify()
        thief()
        copy(written[0], forged := UUID(int=written[0].int ^ 1))
        unlist(forged)
        put_into_list(written[1])
        sealing.seal_records()
        assert go_on() == [f"record {forged} is in no seal"]

    def test_a_range_of_the_thiefs_own(self, read: list[int]) -> None:
        fill(3)
        verify()
        first = newest()
        victim = fill(3)[1]
        row = VerifiedRange.objects.get()
        thief()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        for change in ({"last": newest()}, {"whole_at": timezone.now()}, {"learnt": b"x"}, {"run": uuid4()}):
            VerifiedRange.objects.all().delete()
            row.id = None
            row.save(force_insert=True)
            VerifiedRange.objects.update(**change)
            read.clear()
            assert go_on()[0] == f"record {victim} was changed"
            assert read[0] == 1, "it counts for nothing"
        VerifiedRange.objects.update(last="9" * 5, mac="ü" * 64)
        assert go_on()
        assert first

    def test_a_range_that_is_taken_away_or_put_back(self, read: list[int]) -> None:
        """Either costs time and hides nothing."""
        fill(3)
        verify()
        old = VerifiedRange.objects.get()
        fill(2)
        verify(continued=True)
        VerifiedRange.objects.exclude(id=old.id).delete()
        victim = fill(1)[1]
        thief()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        read.clear()
        assert go_on() == [f"record {victim} was changed"]
        assert read == list(range(old.last + 1, newest() + 1))
        VerifiedRange.objects.all().delete()
        read.clear()
        assert go_on() == [f"record {victim} was changed"]
        assert read == list(range(1, newest() + 1))

    def test_seals_that_were_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The verified ranges tell of it, too."""
        monkeypatch.setattr("audit.chain.checkpoint._write", lambda _: None)
        fill(3)
        short = newest()
        fill(3)
        verify()
        verified = newest()
        fill(1)
        thief()
        cut_off(after=short)
        for found in (go_on(), [str(finding) for finding in find_tampering()]):
            (finding,) = found
            assert finding.startswith(f"the log was cut or made anew: it was verified up to seal {verified}, ")
        assert "as it was written" in verify(restored=True)
        assert kept() == [(1, short)]

    def test_after_a_restore_the_whole_log_is_read_soon(self) -> None:
        """Who could change the backup could change old records in it."""
        victim = fill(3)[1]
        verify()
        thief()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        assert "The next verification reads the whole log" in verify(restored=True, continued=True)
        with pytest.raises(CommandError, match=f"record {victim} was changed"):
            verify(continued=True)

    def test_what_another_run_verified_does_not_count(self, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
        """A run is identified outside the database."""
        victim = fill(6)[1]
        earlier = new_run()
        while verify_range_of(earlier):
            pass
        thief()
        execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        run = new_run()
        for row in VerifiedRange.objects.filter(run=earlier):
            row.id, row.run = None, run
            row.save(force_insert=True)
        found = [str(finding) for finding in find_tampering(None, None, Course(run=run))]
        assert found[0] == f"record {victim} was changed"
        monkeypatch.setattr(verified_ranges, "RUNS_LAST", timedelta())
        cache.set(verifying._RUN, earlier)
        assert verifying.whole_course().run != earlier, "it is too long ago"


class TestRuns:
    """Verifications of the whole log that several processes take part in, or that are interrupted."""

    pytestmark = pytest.mark.usefixtures("small")

    def test_a_killed_one_is_gone_on_with(self, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        fill_often()
        before = OperationRecord.objects.count()
        with monkeypatch.context() as patch, suppress(Killed):
            kill_after(5, patch)
            verify()
        assert VerifiedRange.objects.filter(run__isnull=False).exists()
        cache.delete(verifying._LEADER)  # which ends by itself
        read.clear()
        assert f"as it was written: {before} records in {newest()} seals" in verify()
        assert sorted(read) == list(range(5, newest() + 1))
        assert kept() == [(1, newest())]
        assert VerifiedRange.objects.count() == 1

    def test_what_is_new_is_gone_on_with(self, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
        fill(2)
        verify()
        first = newest()
        fill_often()
        open_record = write_change()
        sealing.seal_records()
        with monkeypatch.context() as patch, suppress(Killed):
            kill_after(5, patch)
            verify(continued=True)
        cache.delete(verifying._LEADER)
        read.clear()
        assert "What is new" in verify(continued=True)
        assert first + 2 < read[0] <= first + 6
        assert VerifiedRange.objects.count() <= 3
        log.complete(open_record.id, outcome="succeeded")
        sealing.seal_records()
        assert not go_on()

    def test_others_help(self, read: list[int]) -> None:
        fill_often()
        open_record = write_change()
        sealing.seal_records()
        fill(4)
        log.complete(open_record.id, outcome="succeeded")
        fill(1)
        alone = Progress()
        assert not list(find_tampering(None, alone))
        run, helped = new_run(), Progress()
        while verify_range_of(run):
            pass
        assert not VerifiedRange.objects.filter(in_doubt=True).exists()
        read.clear()
        assert not list(find_tampering(None, helped, Course(run=run)))
        assert len(read) <= 1, "the others have done the rest"
        assert helped == alone

    def test_what_is_found_does_not_depend_on_who_helps(self) -> None:
        written = fill_often()
        thief()
        for victim in (written[2], written[8], written[3]):
            execute(f"UPDATE {TABLE} SET code = 'X' WHERE id = %s", key_of(victim))
        execute(f"DELETE FROM {SEALS} WHERE number = 4")
        alone = [str(finding) for finding in find_tampering()]
        assert len(alone) >= 4
        run = new_run()
        while verify_range_of(run):
            pass
        assert [str(finding) for finding in find_tampering(None, None, Course(run=run))] == alone

    def test_a_record_sealed_twice_counts_once_for_all(self) -> None:
        written = fill_often()
        thief()
        copy(written[0], forged := UUID(int=written[0].int ^ 1))
        unlist(forged)
        put_into_list(written[1])
        fill(2)
        run = new_run()
        while verify_range_of(run):
            pass
        assert [str(finding) for finding in find_tampering(None, None, Course(run=run))] == [
            f"record {forged} is in no seal"
        ]

    def test_identifiers_out_of_order(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A range that took too few identifiers for known ones is walked again."""
        fill_often()
        monkeypatch.setattr(verified_ranges, "_highest_before", lambda _: UUID(int=0))
        run = new_run()
        while verify_range_of(run):
            pass
        alone, helped = Progress(), Progress()
        assert not list(find_tampering(None, alone))
        assert not list(find_tampering(None, helped, Course(run=run)))
        assert helped == alone

    def test_a_range_whose_process_was_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fill_often()
        run = new_run()
        with monkeypatch.context() as patch, suppress(Killed):
            kill_after(3, patch)
            while verify_range_of(run):
                pass
        assert VerifiedRange.objects.filter(run=run, at=None).count() == 1
        assert verify_range_of(run), "the next one"
        assert VerifiedRange.objects.filter(run=run, at=None).count() == 1
        monkeypatch.setattr(verified_ranges, "LEASE", timedelta())
        VerifiedRange.objects.filter(at=None).update(leased_until=timezone.now() - timedelta(seconds=1))
        while verify_range_of(run):
            pass
        assert not VerifiedRange.objects.filter(run=run, at=None).exists()
