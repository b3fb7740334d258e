"""Clients at work in their part of the directory, and the stories of all witnesses when they are done.

What happens to the gateway meanwhile is told elsewhere: in `campaign` it is broken, in `upgrade` exchanged.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from faults.checks import Story
from faults.client import Transport
from faults.load import Approver, LoadedClient
from faults.observed import Database, Seen, calibrate, look, look_for_deleted
from faults.world import make_places
from lab.directory import Directory

UNDER_WAY = ("approved", "applying", "unknown")
"""States of change requests with which something is still to happen."""


class Scene:
    """An organizational unit for each client, and what was seen there before they began.

    `spare` are places for whoever else works there. `wait_until_even` waits until all domain controllers have the same.
    """

    def __init__(
        self,
        directory: Directory,
        database: Database,
        *,
        seed: int,
        clients: int,
        spare: int = 0,
        wait_until_even: Callable[[], None] = lambda: None,
    ) -> None:
        self.clients: list[LoadedClient] = []
        self.database = database
        self._directory = directory
        self._seed = seed
        self._base = directory.add_unit(f"Campaign {seed}")
        places = make_places(directory, self._base, clients + spare)
        self._places, self.spare = places[:clients], places[clients:]
        self._calibration = calibrate(directory, self._base)
        self._named: set[str] = set()
        self._wait_until_even = wait_until_even
        self._settle()
        self._before = look(directory, self._base, (), self._calibration)
        self._deleted_before = look_for_deleted(directory, self._base)

    @contextmanager
    def load(
        self, people: dict[str, Any], connect: Callable[[], Transport], *, leave: Collection[str] = ()
    ) -> Iterator[Approver]:
        """Clients and an approver at work until the block is left; `leave` names objects the approver leaves alone."""
        self.clients = [
            LoadedClient(
                f"client{number}",
                place,
                connect(),
                key=people["keys"][number],
                careful_key=people["careful"][number],
                choices=random.Random(f"{self._seed}-{number}"),
            )
            for number, place in enumerate(self._places)
        ]
        choices = random.Random(f"{self._seed}-approver")
        approver = Approver(connect(), **people["approver"], choices=choices, leave=leave)
        threads: list[LoadedClient | Approver] = [*self.clients, approver]
        for thread in threads:
            thread.start()
        try:
            yield approver
        finally:
            for thread in threads:
                thread.end()
            for thread in threads:
                thread.join(60)

    def require_working(self) -> None:
        """Raises RuntimeError for a client that is at fault itself."""
        for each in self.clients:
            if each.failure is not None:
                raise RuntimeError(f"{each.name} is at fault itself") from each.failure

    def is_anything_open(self) -> bool:
        """Whether something is still to happen by itself."""
        return (
            bool(self.database.open_records())
            or any(state != "completed" for _, state, _, _ in self.database.runs())
            or bool(self.requests_under_way())
        )

    def requests_under_way(self) -> list[str]:
        """The change requests with which something is still to happen."""
        return [each for each, (status, _) in self.database.change_requests().items() if status in UNDER_WAY]

    def knowable(self, old: Collection[str]) -> Iterator[str]:
        """The open ones of these records whose object is there: nothing stands in the way of looking."""
        for record, target in self.database.open_records().items():
            if record in old and (target is None or self._directory.exists(UUID(target))):
                yield f"record {record} about {target}"

    def story(self, approver: Approver) -> Story:
        """All that is to be compared now."""
        self._settle()
        records = self.database.changes()
        deleted = look_for_deleted(self._directory, self._base) - self._deleted_before
        self._named = {record.target for record in records if record.target is not None} | set(self._before) | deleted
        return Story(
            diaries=[each.diary for each in self.clients],
            records=records,
            before=self._before,
            after=self.look(self._directory),
            calibration=self._calibration,
            decisions=approver.decisions,
            change_requests=self.database.change_requests(),
            runs=self.database.runs(),
            can_sign_in=frozenset(self._passwords_that_work()),
        )

    def _settle(self) -> None:
        self._wait_until_even()
        self._directory.reconnect()  # a domain controller may have ended it meanwhile

    def look(self, directory: Directory) -> Mapping[str, Seen]:
        """What a domain controller holds of all that the story is about."""
        return look(directory, self._base, self._named, self._calibration)

    def _passwords_that_work(self) -> Iterator[tuple[str, str]]:
        for each in self.clients:
            diary = each.diary
            candidates = [(key, value) for key, value in diary.facts.items()]
            candidates += [(key, value) for key, values in diary.open_values().items() for value in values]
            for key, password in candidates:
                if key[0] == "password" and self._directory.can_sign_in(UUID(key[1]), password):
                    yield key[1], password
