"""Clients at work in their areas of the directory, and the evidence of all sides when they are done.

Meanwhile `campaign` breaks the gateway, or `upgrade` replaces it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from typing import Any
from uuid import UUID

from faults.checks import Story
from faults.lending import NO_LENDING, Lender, Lending
from faults.load import Approver, LoadedClient
from faults.observed import Database, ObservedObject, calibrate, read_objects
from faults.world import ATTRIBUTES, make_areas
from lab.domain import Domain, wait_until_replicated
from lab.http import LoadBalancer
from lab.waiting import wait_until

UNDER_WAY = ("approved", "applying", "unknown")
"""States of change requests that are still being processed."""


class Scene:
    """An organizational unit for each key of the accounts, the objects there before the load, and who will work there.

    `spare` are the areas beyond those of the clients, for other workers. `domains` has the domain by each of its domain
    controllers.
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        database_url: str,
        accounts: dict[str, Any],
        balancer: LoadBalancer,
        *,
        seed: int,
        clients: int,
        lending: Lending = NO_LENDING,
    ) -> None:
        self.database = Database(database_url)
        self._domains = domains
        self._directory = directory = domains[0].connect()
        self._base = base = directory.add_unit(f"Campaign {seed}")
        areas = make_areas(directory, base, len(accounts["keys"]))
        lent = directory.add_unit("Lent", parent=base)
        self.lenders = [
            Lender(number, balancer, seed, accounts, lending=lending, directory=directory, unit=lent)
            for number in range(lending.lenders)
        ]
        self._calibration = calibrate(directory)
        self._settle()
        self._before = read_objects(directory, base)
        self.spare = areas[clients:]
        self.clients = [
            LoadedClient(number, balancer, seed, area, accounts) for number, area in enumerate(areas[:clients])
        ]
        self._approver = Approver(
            balancer,
            seed,
            login=accounts["approver"],
            leave={user for area in self.spare for user in area.supervised},
            lenders=self.lenders,
        )
        self.workers = [*self.clients, self._approver, *self.lenders]

    def close(self) -> None:
        """End its connection to the directory."""
        self._directory.close()

    def require_working(self) -> None:
        """Raise RuntimeError if a client itself has failed."""
        for each in self.clients:
            if each.failure is not None:
                raise RuntimeError(f"{each.name} is at fault itself") from each.failure

    def wait_until(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Wait for a condition; raises TimedOut, or RuntimeError if a client itself has failed meanwhile."""

        def is_over_and_well() -> bool:
            self.require_working()
            return is_over()

        wait_until(is_over_and_well, seconds, "the clients wait in vain")

    def is_anything_open(self) -> bool:
        """Whether records, runs or change requests are still being processed."""
        return (
            bool(self.database.open_records())
            or any(state != "completed" for _, state, _, _ in self.database.runs())
            or any(each.status in (*UNDER_WAY, "scheduled", "overdue") for each in self.database.change_requests())
        )

    def requests_under_way(self) -> set[str]:
        """The change requests that are still being processed."""
        return {each.id for each in self.database.change_requests() if each.status in UNDER_WAY}

    def find_settleable(self, old: Collection[str]) -> Iterator[str]:
        """Yield the open ones of these records whose object exists, so that the gateway could settle them."""
        self._directory.reconnect()  # MaxConnIdleTime: it closes connections after 15 idle minutes
        for record, target in self.database.open_records().items():
            if record in old and (target is None or self._directory.exists(UUID(target))):
                yield f"record {record} about {target}"

    def story(self) -> Story:
        """Collect everything to compare."""
        self._settle()
        return Story(
            diaries=[each.diary for each in self.clients],
            records=self.database.changes(),
            before=self._before,
            after=read_objects(self._directory, self._base),
            calibration=self._calibration,
            decisions=self._approver.decisions,
            change_requests=self.database.change_requests(),
            runs=self.database.runs(),
            can_sign_in=frozenset(self._passwords_that_work()),
        )

    def differences(self, story: Story) -> Iterator[str]:
        """Yield the objects of a story, just told, on which the domain controllers differ."""
        for domain in self._domains[1:]:
            with closing(domain.connect()) as directory:
                other = read_objects(directory, self._base)
            for guid in story.after.keys() | other.keys():
                one, two = _replicated_state(story.after.get(guid)), _replicated_state(other.get(guid))
                if one != two:
                    yield f"{guid}: {one} and {two}"

    def _settle(self) -> None:
        wait_until_replicated(self._domains)
        self._directory.reconnect()  # a domain controller may have closed it meanwhile

    def _passwords_that_work(self) -> Iterator[tuple[str, str]]:
        for each in self.clients:
            for (kind, *objects), values in each.diary.possible_values().items():
                for password in values if kind == "password" else ():
                    if self._directory.can_sign_in(UUID(objects[0]), password):
                        yield objects[0], password


def _replicated_state(seen: ObservedObject | None) -> object:
    """The part of an object that all domain controllers must agree on."""
    if seen is None or seen.is_deleted:
        return "gone"
    names = (*ATTRIBUTES, "userAccountControl", "member")
    return seen.dn.lower(), sorted(seen.versions.items()), [sorted(seen.values.get(name, ())) for name in names]
