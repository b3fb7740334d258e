"""What goes wrong around the write of a change, and the settler that comes by afterwards."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from active_directory import Client, OutcomeUnknown
from audit import log
from audit.models import OperationRecord
from directory.outcomes import evidence, writer
from gateway import tasks
from gateway.pipeline import execute
from lab.proxy import FaultyProxy


class Killed(BaseException):
    """The end of the process: as SIGKILL, nothing in the gateway catches it."""


@contextmanager
def killed_at_the_write(*, after_write: bool) -> Iterator[None]:
    """The process is killed at its next write, before it or after it."""
    with _written_and_raised(Killed(), after_write=after_write), pytest.raises(Killed):
        yield


@contextmanager
def unknown_outcome(*, after_write: bool) -> Iterator[None]:
    """The connection is lost with the write on it, and nobody finds out for now whether it was done."""
    lost = OutcomeUnknown("The connection was lost before the directory answered")
    with _written_and_raised(lost, after_write=after_write), pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "await_recorded_outcomes", lambda _, records: [None for _ in records])
        yield


@contextmanager
def _written_and_raised(error: BaseException, *, after_write: bool) -> Iterator[None]:
    write = Client.write

    def write_and_raise(client: Client, what: Any) -> str:
        if after_write:
            write(client, what)
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "write", write_and_raise)
        yield


def settle(*, nothing_under_way: bool = False) -> None:
    """Let the settler come by when everything open is due.

    It looks twice for what is not there, with seconds between. They are for writes on their way to the directory, and a
    write of `killed_at_the_write` or `unknown_outcome` is made before the test goes on, or never.
    """
    due = timezone.now() - timedelta(seconds=1)
    OperationRecord.objects.filter(outcome__in=["pending", "unknown"]).update(settle_at=due)
    with pytest.MonkeyPatch.context() as patch:
        if nothing_under_way:
            patch.setattr(log, "SECONDS_OF_ABSENCE", 0)
        tasks.sweep()


def just_before_the_write(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Let something happen once, after the next change was checked and before it is recorded and written."""
    original = execute.record_intents

    def record_intents(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(execute, "record_intents", original)
        action()
        return original(*args, **kwargs)

    monkeypatch.setattr(execute, "record_intents", record_intents)


def be_patient_with_lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of a write whose answer was lost is looked for until it is known, however slow the machine is."""
    monkeypatch.setattr(evidence, "RECOVERY_SECONDS", 120.0)


def lose_the_answer(monkeypatch: pytest.MonkeyPatch, proxy: FaultyProxy) -> None:
    """The next write's answer is lost, and so are the answers to the gateway's first two attempts to find out."""
    be_patient_with_lost_answers(monkeypatch)

    def begin() -> None:
        proxy.lose_answer()
        proxy.restore_after(3)

    just_before_the_write(monkeypatch, begin)
