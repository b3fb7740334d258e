"""Runs a campaign, from the first server to the last finding. `report` prints it."""

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from faults.checks import CHECKS, Story
from faults.client import Transport
from faults.kinds import FaultInjector, FaultResult, Kind, plan_faults
from faults.lending import NO_LENDING, Lending
from faults.observed import Database, ObservedObject
from faults.scene import Scene
from faults.world import ATTRIBUTES
from lab.accounts.making import make_accounts
from lab.directory import Directory
from lab.domain import Domain, wait_until_replicated
from lab.gateway import Commands
from lab.waiting import TimedOut, wait_until

WARM_UP = 2.0


@dataclass(frozen=True)
class Plan:
    """The parameters of a campaign, with times in seconds.

    `pace` is the average time between two faults, `patience` the longest wait for answers that clients still expect
    after the last one, `longest` the limit for any fault. A killed process must be back within `back_within`, and every
    record whose outcome can be known must be settled within `settled_within` after the last fault. With `lending`
    memberships are given for a minute, too, which makes a campaign at least two minutes long.
    """

    faults: int
    database: str
    seed: int = field(default_factory=lambda: random.randrange(10**6))
    clients: int = 6
    pace: float = 3.0
    patience: float = 200.0
    back_within: float = 10.0
    settled_within: float = 60.0
    longest: float = math.inf
    lending: Lending = NO_LENDING


@dataclass
class Result:
    """The result of a campaign: findings by target, the faults, and everything that was compared."""

    plan: Plan
    findings: dict[str, list[str]]
    struck: list[FaultResult]
    story: Story
    settled_after: float
    by_server: dict[str, int]
    """The number of changes that each domain controller accepted."""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether every target was met."""
        return not any(self.findings.values())


class Site(Commands, Protocol):
    """The servers of a campaign: the gateway with everything that it needs, on one host or many."""

    domains: list[Domain]
    """The domain, by each of its domain controllers."""
    database_url: str
    base_url: str

    @property
    def directory_urls(self) -> Sequence[str]:
        """The URLs of the domain for the gateway."""

    def start(self) -> None:
        """Start the gateway and supervise it; the servers that it needs already run."""

    def wait_until_ready(self) -> None:
        """Wait until the gateway answers."""

    def unexpected_ends(self) -> list[str]:
        """The ends of processes that nobody had killed."""


SiteOf = Callable[[Path], AbstractContextManager[Any]]
"""Starts the servers of a site in a directory, and stops them at the end."""


def run_campaign(
    plan: Plan, directory: Path, *, say: Callable[[str], None], site: SiteOf, kinds: Sequence[Kind]
) -> Result:
    """Run a campaign. The directory is for its servers; logs, diaries and the records of changes stay there."""
    started = time.monotonic()
    with site(directory) as servers, closing(servers.domains[0].connect()) as client:
        campaign = _Campaign(plan, servers, client, kinds, say)
        campaign.run()
        for diary in campaign.result.story.diaries:
            diary.write(directory / f"{diary.client}.jsonl")
        _write(directory / "records.jsonl", (asdict(each) for each in campaign.result.story.records))
        _write(directory / "faults.jsonl", (_fault_json(each) for each in campaign.result.struck))
    campaign.result.seconds = time.monotonic() - started
    return campaign.result


def _write(file: Path, facts: Iterable[dict[str, Any]]) -> None:
    with file.open("w") as lines:
        lines.writelines(json.dumps(each, default=str) + "\n" for each in facts)


def _fault_json(struck: FaultResult) -> dict[str, Any]:
    at = datetime.fromtimestamp(struck.at, UTC)
    return {"at": at, "seconds": struck.seconds, "fault": struck.name, "choice": struck.choice}


class _Campaign:
    """A running campaign: its servers, its clients and its findings."""

    def __init__(
        self, plan: Plan, servers: Site, directory: Directory, kinds: Sequence[Kind], say: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._servers = servers
        self._kinds = kinds
        self._directory = directory
        self._say = say
        self._scene = Scene(
            directory,
            Database(servers.database_url),
            seed=plan.seed,
            clients=plan.clients,
            lending=plan.lending,
            wait_until_replicated=lambda: wait_until_replicated(servers.domains),
        )
        self._findings: dict[str, list[str]] = {}
        self._settled_after = 0.0

    def run(self) -> None:
        """Run load and faults, wait for the end, and check."""
        servers = self._servers
        people = make_accounts(servers, servers.domains[0], urls=servers.directory_urls, clients=self._plan.clients)
        servers.start()
        self._say("the load begins")
        with self._scene.load(people, lambda: Transport(lambda: nullcontext(servers.base_url))) as approver:
            struck = self._strike()
            self._wait_for_end()
        # What a client or the approver has asked for at the last moment.
        with suppress(TimedOut):  # the checks say what is still open then
            wait_until(lambda: not self._scene.is_anything_open(), self._plan.settled_within)
        story = self._scene.story(approver)
        story.faults = [(each.at, each.at + each.seconds) for each in struck]
        self._say(f"checking {len(story.records)} records and {len(story.after)} objects")
        self._findings |= {name: list(check(story)) for name, check in CHECKS.items()}
        if len(servers.domains) > 1:
            self._findings["objects on which the domain controllers differ"] = list(self._differences())
        for target in sorted({kind.target for kind in self._kinds}, reverse=True):
            self._findings[target] = [each.complaint for each in struck if each.complaint and each.target == target]
        self._findings["processes that ended by themselves"] = servers.unexpected_ends()
        self._findings["operations log found tampered with"] = list(self._tampering())
        by_server = self._scene.database.changes_by_server()
        self.result = Result(self._plan, self._findings, struck, story, self._settled_after, by_server)

    def _differences(self) -> Iterator[str]:
        """Yield the objects whose content differs between domain controllers."""
        with ExitStack() as stack:
            clients = [stack.enter_context(closing(domain.connect())) for domain in self._servers.domains]
            first, *others = map(self._scene.read_objects, clients)
        for other in others:
            for guid in first.keys() | other.keys():
                one, two = _replicated_state(first.get(guid)), _replicated_state(other.get(guid))
                if one != two:
                    yield f"{guid}: {one} and {two}"

    def _tampering(self) -> Iterator[str]:
        try:
            self._servers.manage("verify_operations_log")
        except RuntimeError as error:
            yield str(error)

    def _strike(self) -> list[FaultResult]:
        plan = self._plan
        faults = plan_faults(
            random.Random(plan.seed),
            kinds=self._kinds,
            count=plan.faults,
            pace=plan.pace,
            patience=plan.back_within,
            longest=plan.longest,
        )
        time.sleep(WARM_UP)
        striker = FaultInjector(self._servers, faults)
        striker.start()
        reported = 0
        while striker.is_alive():
            striker.join(10)
            self._scene.require_working()
            requests = sum(len(each.diary.requests) for each in self._scene.clients)
            self._say(f"{len(striker.struck)} faults, {requests} requests")
            for each in striker.struck[reported:]:
                reported += 1
                if each.complaint:  # at once: it may cause what ends the campaign before its report
                    self._say(each.complaint)
        return striker.struck

    def _wait_for_end(self) -> None:
        """Wait until everything has ended; what is open after the time for settling is a finding."""
        for lender in self._scene.lenders:
            lender.finish()
        started = time.monotonic()
        for each in self._scene.clients:
            each.finish()
        self._servers.wait_until_ready()
        self._directory.reconnect()  # MaxConnIdleTime: it closes connections after 15 idle minutes
        old, old_requests = set(self._scene.database.open_records()), set(self._scene.requests_under_way())
        promised = self._plan.settled_within
        late = f"records not settled within {promised:g} s"
        waiting_requests = f"approved changes not applied within {promised:g} s"
        reported = 0.0
        while (passed := time.monotonic() - started) < max(self._plan.patience, promised):
            self._scene.require_working()
            left = sorted(old_requests & set(self._scene.requests_under_way()))
            is_settled = not old & set(self._scene.database.open_records()) and not left
            if late not in self._findings and (is_settled or passed > promised):
                self._settled_after = passed
                self._findings[late] = list(self._scene.find_settleable(old))
                self._findings[waiting_requests] = [f"change request {each}" for each in left]
            waiting = [each.name for each in self._scene.clients if not each.is_finished]
            is_patient = passed < self._plan.patience or not all(
                each.has_done_everything for each in self._scene.clients
            )
            if late in self._findings and not (waiting and is_patient) and not self._scene.is_anything_open():
                return
            if passed - reported > 10:
                reported = passed
                self._say(f"{len(waiting)} clients still wait for an answer")
            time.sleep(0.5)


def _replicated_state(seen: ObservedObject | None) -> object:
    """The part of an object that all domain controllers must agree on."""
    if seen is None or seen.is_deleted:
        return "gone"
    names = (*ATTRIBUTES, "userAccountControl", "member")
    return seen.dn.lower(), sorted(seen.versions.items()), [sorted(seen.values.get(name, ())) for name in names]
