"""Outcomes that wait for the database: the thread that writes them."""

import time

import pytest

from audit.late_outcomes import LateOutcomes


@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unexpected_error_ends_no_more_than_one_attempt() -> None:
    attempts: list[list[str]] = []

    def write(batch: list[str]) -> None:
        attempts.append(batch)
        if len(attempts) == 1:
            raise RuntimeError("nobody thought of this")

    late = LateOutcomes(write)
    late.keep(["first"])
    assert late._thread is not None
    late._thread.join(60)
    late.keep(["second"])
    deadline = time.monotonic() + 60
    while len(attempts) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert attempts == [["first"], ["first", "second"]]
