"""What waits to be written: in order, a batch at a time, and again when it could not be or an error came between."""

import time

from core.background_writer import BackgroundWriter

FOREVER = 600.0


def wait_for(attempts: list[list[str]], count: int) -> None:
    deadline = time.monotonic() + 60
    while len(attempts) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_items_are_written_in_their_order_a_batch_at_a_time() -> None:
    written: list[list[str]] = []
    writer = BackgroundWriter[str]("test", lambda batch: not written.append(batch), delay=FOREVER, batch=3)
    for item in "ab":
        assert writer.add(item)
    assert writer.flush()
    for item in "cdef":
        writer.add(item)
    assert writer.flush()
    assert [item for batch in written for item in batch] == list("abcdef")
    assert max(map(len, written)) <= 3


def test_without_room_an_item_is_refused() -> None:
    writer = BackgroundWriter[str]("test", lambda _: True, delay=FOREVER, capacity=1)
    assert writer.add("kept")
    assert not writer.add("refused")
    assert writer.refused == 1


def test_what_could_not_be_written_is_tried_again() -> None:
    attempts: list[list[str]] = []

    def write(batch: list[str]) -> bool:
        attempts.append(batch)
        return len(attempts) > 1

    writer = BackgroundWriter("test", write, retry=0.01)
    writer.add("first")
    wait_for(attempts, 2)
    assert attempts == [["first"], ["first"]]


def test_an_unexpected_error_ends_no_more_than_one_attempt() -> None:
    attempts: list[list[str]] = []

    def write(batch: list[str]) -> bool:
        attempts.append(batch)
        if len(attempts) == 1:
            raise RuntimeError("nobody thought of this")
        return True

    writer = BackgroundWriter("test", write, retry=0.01)
    writer.add("first")
    wait_for(attempts, 2)
    writer.add("second")
    wait_for(attempts, 3)
    assert attempts == [["first"], ["first"], ["second"]]
