"""Memberships that end by themselves, and some that begin later, while a campaign breaks things.

They are of a group and people of their own, so that nothing else changes them.
"""

import random
import threading
import time
from datetime import UTC, datetime, timedelta

from faults.client import Transport
from lab.directory import Directory, random_name

PEOPLE = 240
LASTS = timedelta(seconds=60)
"""How long a membership lasts: as short a while as the gateway allows."""
BEGINS_AFTER = timedelta(seconds=20)
"""How much later every second one begins."""
PAUSE = (0.1, 0.6)
_AGAIN_AFTER = (LASTS + BEGINS_AFTER).total_seconds() + 60
"""Seconds after which somebody is lent a membership again."""


def make_guests(directory: Directory, base: str) -> tuple[str, list[str]]:
    """A group, and people who are lent memberships of it."""
    unit = directory.add_unit("Lent", parent=base)
    people = [str(directory.add_user(random_name("guest"), parent=unit)) for _ in range(PEOPLE)]
    return str(directory.add_group(random_name("group"), parent=unit)), people


class Lender(threading.Thread):
    """A client that gives memberships for a minute. `lent` counts those that it was told of."""

    def __init__(self, http: Transport, *, key: str, guests: tuple[str, list[str]], choices: random.Random) -> None:
        super().__init__(name="lender", daemon=True)
        self._group, people = guests
        self._free_at = dict.fromkeys(people, 0.0)
        self._http, self._key, self._choices = http, key, choices
        self._ended = threading.Event()
        self.lent = 0

    def end(self) -> None:
        """Lend no more."""
        self._ended.set()

    def run(self) -> None:
        number = 0
        while not self._ended.wait(self._choices.uniform(*PAUSE)):
            user = min(self._free_at, key=lambda user: self._free_at[user])
            if self._free_at[user] < time.monotonic():
                number += 1
                self._lend(user, number)

    def _lend(self, user: str, number: int) -> None:
        """Ask until there is an answer that tells something, or give up: the change may then be made or not."""
        self._free_at[user] = time.monotonic() + _AGAIN_AFTER
        headers = {"X-API-Key": self._key, "Idempotency-Key": f"lent-{number}", "X-Change-Reason": f"lent-{number}"}
        headers["X-Revert-After"] = f"PT{int(LASTS.total_seconds())}S"
        if number % 2:
            headers["X-Apply-At"] = (datetime.now(UTC) + BEGINS_AFTER).isoformat()
        for _ in range(10):
            answer = self._http.send("POST", f"/api/ad/groups/{self._group}/members", {"add": [user]}, headers)
            if answer.status in (200, 202):
                self.lent += 1
                return
            if answer.status not in (0, 409, 503) or self._ended.wait(1):
                return
