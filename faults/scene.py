"""Clients at work in their areas of the directory, and the evidence of all sides when they are done.

Meanwhile `campaign` breaks the gateway, or `upgrade` replaces it.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from faults.checks import Story
from faults.client import Transport, working
from faults.lending import NO_LENDING, Lender, Lending, make_guests
from faults.load import Approver, LoadedClient
from faults.observed import Database, ObservedObject, calibrate, find_deleted_objects, read_objects
from faults.world import make_areas
from lab.directory import Directory

UNDER_WAY = ("approved", "applying", "unknown")
"""States of change requests that are still being processed."""


class Scene:
    """An organizational unit for each client, and the objects there before the load.

    `spare` are areas for other workers. `wait_until_replicated` waits until all domain controllers have all changes.
    """

    def __init__(
        self,
        directory: Directory,
        database: Database,
        *,
        seed: int,
        clients: int,
        spare: int = 0,
        lending: Lending = NO_LENDING,
        wait_until_replicated: Callable[[], None] = lambda: None,
    ) -> None:
        self.clients: list[LoadedClient] = []
        self.lenders: list[Lender] = []
        self.database = database
        self._directory = directory
        self._seed = seed
        self._base = directory.add_unit(f"Campaign {seed}")
        areas = make_areas(directory, self._base, clients + spare)
        self._lending = lending
        self._guests = make_guests(directory, self._base, lending)
        self._areas, self.spare = areas[:clients], areas[clients:]
        self._calibration = calibrate(directory, self._base)
        self._known_objects: set[str] = set()
        self._wait_until_even = wait_until_replicated
        self._settle()
        self._before = read_objects(directory, self._base, (), self._calibration)
        self._deleted_before = find_deleted_objects(directory, self._base)

    @contextmanager
    def load(
        self, people: dict[str, Any], connect: Callable[[], Transport], *, leave: Collection[str] = ()
    ) -> Iterator[Approver]:
        """Run clients and an approver within the block; the approver leaves the objects in `leave` alone."""
        self.clients = [
            LoadedClient(
                f"client{number}",
                area,
                connect(),
                key=people["keys"][number],
                careful_key=people["careful"][number],
                choices=random.Random(f"{self._seed}-{number}"),
            )
            for number, area in enumerate(self._areas)
        ]
        self.lenders = [
            Lender(f"lent-{number}", connect(), people, guests, lending=self._lending, seed=f"{self._seed}-{number}")
            for number, guests in enumerate(self._guests)
        ]
        approver = Approver(
            connect(),
            login=people["approver"],
            choices=random.Random(f"{self._seed}-approver"),
            leave=leave,
            lent={each.group for each in self._guests},
            is_everything_asked=lambda: all(lender.has_had_its_burst.is_set() for lender in self.lenders),
        )
        with working(*self.clients, approver, *self.lenders):
            yield approver

    def require_working(self) -> None:
        """Raise RuntimeError if a client itself has failed."""
        for each in self.clients:
            if each.failure is not None:
                raise RuntimeError(f"{each.name} is at fault itself") from each.failure

    def is_anything_open(self) -> bool:
        """Whether records, runs or change requests are still being processed."""
        return (
            bool(self.database.open_records())
            or any(state != "completed" for _, state, _, _ in self.database.runs())
            or bool(self.requests_under_way())
            or any(each.status in ("scheduled", "overdue") for each in self.database.scheduled())
        )

    def requests_under_way(self) -> list[str]:
        """The change requests that are still being processed."""
        return [each for each, (status, _) in self.database.change_requests().items() if status in UNDER_WAY]

    def find_settleable(self, old: Collection[str]) -> Iterator[str]:
        """Yield the open ones of these records whose object exists, so that the gateway could settle them."""
        self._directory.reconnect()  # MaxConnIdleTime: it closes connections after 15 idle minutes
        for record, target in self.database.open_records().items():
            if record in old and (target is None or self._directory.exists(UUID(target))):
                yield f"record {record} about {target}"

    def story(self, approver: Approver) -> Story:
        """Collect everything to compare."""
        self._settle()
        records = self.database.changes()
        deleted = find_deleted_objects(self._directory, self._base) - self._deleted_before
        self._known_objects = (
            {record.target for record in records if record.target is not None} | set(self._before) | deleted
        )
        return Story(
            diaries=[each.diary for each in self.clients],
            records=records,
            before=self._before,
            after=self.read_objects(self._directory),
            calibration=self._calibration,
            decisions=approver.decisions,
            change_requests=self.database.change_requests(),
            runs=self.database.runs(),
            can_sign_in=frozenset(self._passwords_that_work()),
            scheduled=self.database.scheduled(),
        )

    def _settle(self) -> None:
        self._wait_until_even()
        self._directory.reconnect()  # a domain controller may have closed it meanwhile

    def read_objects(self, directory: Directory) -> Mapping[str, ObservedObject]:
        """Read all objects of the story from a domain controller."""
        return read_objects(directory, self._base, self._known_objects, self._calibration)

    def _passwords_that_work(self) -> Iterator[tuple[str, str]]:
        for each in self.clients:
            for (kind, *objects), values in each.diary.possible_values().items():
                for password in values if kind == "password" else ():
                    if self._directory.can_sign_in(UUID(objects[0]), password):
                        yield objects[0], password
