"""Holding an answer back: until it ends, for so long, for so many."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from core.deadlines import Deadline, OutOfTime, current_deadline
from operations import waiting
from operations.waiting import WaitingQuery

PENDING, APPLYING, APPLIED = "pending", "applying", "applied"


@pytest.fixture(autouse=True)
def access(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The states of access that are read, the last one again and again."""
    states: list[str | None] = ["first"]
    monkeypatch.setattr(waiting, "read_state", lambda: states.pop(0) if states[1:] else states[0])
    return states


@pytest.fixture
def deadline() -> Iterator[Deadline]:
    token = current_deadline.set(Deadline(time.monotonic() + 60))
    yield current_deadline.get()
    current_deadline.reset(token)


def wait_for_end(find: Callable[[], str], *, seconds: int, credential: str) -> str:
    return waiting.wait_for_end(
        find, has_ended=lambda found: found == APPLIED, query=WaitingQuery(wait=seconds), credential=credential
    )


def found_in_turn(*requests: str) -> Any:
    return iter(requests).__next__


def test_until_it_has_ended() -> None:
    assert wait_for_end(found_in_turn(PENDING, APPLYING, APPLIED), seconds=60, credential="a") is APPLIED


def test_one_that_has_ended_needs_no_wait() -> None:
    assert wait_for_end(found_in_turn(APPLIED), seconds=60, credential="a") is APPLIED


@pytest.mark.parametrize("seconds", [0, 1])
def test_no_longer_than_asked(seconds: int) -> None:
    began = time.monotonic()
    assert wait_for_end(lambda: PENDING, seconds=seconds, credential="a") is PENDING
    assert time.monotonic() - began >= seconds


def test_a_client_that_leaves_is_not_waited_for(deadline: Deadline) -> None:
    deadline.is_client_gone = True
    with pytest.raises(OutOfTime):
        wait_for_end(lambda: PENDING, seconds=60, credential="a")


@pytest.mark.parametrize("states", [("first", "second"), (None,)])
def test_nothing_newer_is_found_once_access_has_changed(access: list[str | None], states: tuple[str | None]) -> None:
    access[:] = states
    assert wait_for_end(found_in_turn(PENDING, APPLIED), seconds=60, credential="a") is PENDING


def test_it_ends_before_the_time_of_the_request(deadline: Deadline) -> None:
    deadline.at = time.monotonic() + 1.2
    assert wait_for_end(lambda: PENDING, seconds=60, credential="a") is PENDING


@pytest.mark.parametrize(("callers", "another"), [("a", "a"), ("ab", "c")])
def test_few_wait_at_a_time(callers: str, another: str) -> None:
    is_over, all_wait = threading.Event(), threading.Barrier(len(callers) + 1)

    def wait(credential: str) -> None:
        first = iter((True,))

        def find() -> str:
            if not next(first, False) and not is_over.is_set():
                all_wait.wait(60)
                is_over.wait(60)
            return APPLIED if is_over.is_set() else PENDING

        wait_for_end(find, seconds=60, credential=credential)

    threads = [threading.Thread(target=wait, args=(credential,)) for credential in callers]
    for thread in threads:
        thread.start()
    all_wait.wait(60)
    try:
        assert wait_for_end(found_in_turn(PENDING), seconds=60, credential=another) is PENDING
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert wait_for_end(found_in_turn(PENDING, APPLIED), seconds=60, credential="a") is APPLIED
