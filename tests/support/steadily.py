"""Somebody who goes on asking while something else is done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def asked_steadily(ask: Callable[[], int], *, every: float) -> Iterator[list[int]]:
    """Ask one after the other, with so many seconds in between: the status of each answer."""
    answered: list[int] = []
    is_over = Event()

    def go_on() -> None:
        while not is_over.wait(every):
            answered.append(ask())

    somebody = Thread(target=go_on)
    somebody.start()
    try:
        yield answered
    finally:
        is_over.set()
        somebody.join()
