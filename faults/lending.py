"""Memberships that end by themselves, and some that begin later, while a campaign breaks things.

They are of groups and people of their own, so that nothing else changes them.
"""

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from faults.client import Caller
from lab.accounts.making import BUDGET
from lab.directory import Directory, random_name
from lab.http import LoadBalancer

LASTS = timedelta(seconds=60)
"""How long a membership lasts: as short a while as the gateway allows."""
BEGINS_AFTER = timedelta(seconds=20)
"""How much later every second one begins."""
BURST = "burst"
"""How the reasons of those begin that are asked for with the key that has a budget."""
_AGAIN_AFTER = (LASTS + BEGINS_AFTER).total_seconds() + 60
"""Seconds after which somebody is lent a membership again."""


@dataclass(frozen=True)
class Lending:
    """How many clients lend memberships, each to so many people, and how many seconds each pauses.

    `total` is how many ends and beginnings they ask for together; by default they stop when the faults are over. Before
    that they ask together for more ends than the budget of their key allows, and a person approves all others at once:
    `burst` of them.
    """

    lenders: int = 1
    people: int = 240
    pause: tuple[float, float] = (0.1, 0.6)
    total: float = math.inf
    burst: int = 0

    @property
    def burst_of_each(self) -> int:
        """How many each asks for with the key that has a budget."""
        return -(-(self.burst + BUDGET) // self.lenders) if self.burst else 0


NO_LENDING = Lending(lenders=0)


class Lender(Caller):
    """A client that gives memberships of its `group` for a minute: to some people once, in the burst, others often."""

    def __init__(
        self,
        number: int,
        balancer: LoadBalancer,
        seed: int,
        accounts: dict[str, Any],
        *,
        lending: Lending,
        directory: Directory,
        unit: str,
    ) -> None:
        super().__init__(f"lent-{number}", balancer, seed)
        self._key, self._budgeted_key = accounts["keys"][0], accounts["budgeted"]
        self._lending = lending
        self.group = str(directory.add_group(random_name("group"), parent=unit))
        count = lending.burst_of_each + lending.people
        people = [str(directory.add_user(random_name("guest"), parent=unit)) for _ in range(count)]
        self._once, often = people[: lending.burst_of_each], people[lending.burst_of_each :]
        self._free_at = dict.fromkeys(often, 0.0)
        self.has_had_its_burst = False

    def finish(self) -> None:
        """Lend no more than what was planned, and wait for that."""
        if self._lending.total == math.inf:
            self.end()
        self.join()

    def run(self) -> None:
        for number, user in enumerate(self._once):
            self._lend(user, f"{BURST}-{self.name}-{number}", self._budgeted_key)
        self.has_had_its_burst = True
        number, asked = 0, 0
        wanted = self._lending.total / self._lending.lenders
        while asked < wanted and not self._ended.wait(self._choices.uniform(*self._lending.pause)):
            user, free_at = min(self._free_at.items(), key=itemgetter(1))
            if free_at < time.monotonic():
                self._free_at[user] = time.monotonic() + _AGAIN_AFTER
                number += 1
                asked += 1 + number % 2
                self._lend(user, f"{self.name}-{number}", self._key, begins_later=number % 2 == 1)

    def _lend(self, user: str, name: str, key: str, *, begins_later: bool = False) -> None:
        """Ask until there is an answer that tells something, or give up: the change may then be made or not."""
        headers = {"X-API-Key": key, "Idempotency-Key": name, "X-Change-Reason": name}
        headers["X-Revert-After"] = f"PT{int(LASTS.total_seconds())}S"
        if begins_later:
            headers["X-Apply-At"] = (datetime.now(UTC) + BEGINS_AFTER).isoformat()
        for _ in range(30):
            path = f"/api/ad/groups/{self.group}/members"
            answer = self._http.send("POST", path, {"add": [user]}, headers)
            if answer.status not in (0, 409, 503, 504) or self._ended.wait(1):
                return
