"""Runs a campaign, from the first server to the last finding. `report` prints it."""

import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field
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
from lab.domain import Domain, wait_until_replicated
from lab.gateway import Commands
from lab.waiting import TimedOut, wait_until

WARM_UP = 2.0
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """The parameters of a campaign, with times in seconds.

    `pace` is the average time between two faults, `answered_within` the longest wait for answers that clients still
    expect after the last one. A killed process must be back within `patience`, and every record whose outcome can be
    known must be settled within `settled_within` after the last fault. With `lending` memberships are given for a
    minute, too, which makes a campaign at least two minutes long.
    """

    faults: int
    database: str
    seed: int = field(default_factory=lambda: random.randrange(10**6))
    clients: int = 6
    pace: float = 3.0
    answered_within: float = 200.0
    patience: float = 10.0
    settled_within: float = 60.0
    lending: Lending = NO_LENDING


@dataclass
class Result:
    """The result of a campaign: findings by target, the faults, and everything that was compared."""

    plan: Plan
    findings: dict[str, list[str]]
    struck: list[FaultResult]
    story: Story
    settled_after: float
    seconds: float

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


def run_campaign(plan: Plan, directory: Path, *, site: SiteOf, kinds: Sequence[Kind]) -> Result:
    """Run a campaign. The directory is for its servers; logs, diaries and the records of changes stay there."""
    started = time.monotonic()
    findings: dict[str, list[str]] = {}
    with site(directory) as servers, closing(servers.domains[0].connect()) as client:
        scene = Scene(
            client,
            Database(servers.database_url),
            seed=plan.seed,
            clients=plan.clients,
            lending=plan.lending,
            wait_until_replicated=lambda: wait_until_replicated(servers.domains),
        )
        people = make_accounts(servers, servers.domains[0], urls=servers.directory_urls, clients=plan.clients)
        servers.start()
        _logger.info("the load begins")
        with scene.load(people, lambda: Transport(lambda: nullcontext(servers.base_url))) as approver:
            struck = _strike(plan, servers, scene, kinds)
            for lender in scene.lenders:
                lender.finish()
            settled_after = _wait_for_end(plan, servers, scene, findings)
        # What a client or the approver has asked for at the last moment.
        with suppress(TimedOut):  # the checks say what is still open then
            wait_until(lambda: not scene.is_anything_open(), plan.settled_within)
        story = scene.story(approver)
        story.faults = [(each.at, each.at + each.seconds) for each in struck]
        _logger.info(f"checking {len(story.records)} records and {len(story.after)} objects")
        findings |= {name: list(check(story)) for name, check in CHECKS.items()}
        if len(servers.domains) > 1:
            findings["objects on which the domain controllers differ"] = list(_differences(servers, scene))
        for target in sorted({kind.target for kind in kinds}, reverse=True):
            findings[target] = [each.complaint for each in struck if each.complaint and each.target == target]
        findings["processes that ended by themselves"] = servers.unexpected_ends()
        findings["operations log found tampered with"] = list(_tampering(servers))
    for diary in story.diaries:
        _write(directory / f"{diary.client}.jsonl", diary.requests)
    _write(directory / "records.jsonl", story.records)
    _write(directory / "faults.jsonl", struck)
    return Result(plan, findings, struck, story, settled_after, time.monotonic() - started)


def _write(file: Path, facts: Iterable[Any]) -> None:
    """Write facts for people who investigate; the credentials among them are useless by then."""
    file.write_text("".join(json.dumps(asdict(each), default=str) + "\n" for each in facts))


def _strike(plan: Plan, servers: Site, scene: Scene, kinds: Sequence[Kind]) -> list[FaultResult]:
    """Cause the faults, and return when all of them are over."""
    choices = random.Random(plan.seed)
    faults = plan_faults(choices, kinds=kinds, count=plan.faults, pace=plan.pace, patience=plan.patience)
    time.sleep(WARM_UP)
    striker = FaultInjector(servers, faults)
    striker.start()
    reported = 0
    while striker.is_alive():
        striker.join(10)
        scene.require_working()
        requests = sum(len(each.diary.requests) for each in scene.clients)
        _logger.info(f"{len(striker.struck)} faults, {requests} requests")
        for each in striker.struck[reported:]:
            reported += 1
            if each.complaint:  # at once: it may cause what ends the campaign before its report
                _logger.warning(each.complaint)
    return striker.struck


def _wait_for_end(plan: Plan, servers: Site, scene: Scene, findings: dict[str, list[str]]) -> float:
    """Wait until everything has ended; what is open after the time for settling is a finding.

    Return after how many seconds the records and approved changes of now were settled, or found not to be.
    """
    started = time.monotonic()
    for each in scene.clients:
        each.finish()
    servers.wait_until_ready()
    old, old_requests = set(scene.database.open_records()), set(scene.requests_under_way())
    settled_after: float | None = None
    reported = 0.0
    while (passed := time.monotonic() - started) < max(plan.answered_within, plan.settled_within):
        scene.require_working()
        left = sorted(old_requests & set(scene.requests_under_way()))
        is_settled = not left and not old & set(scene.database.open_records())
        if settled_after is None and (is_settled or passed > plan.settled_within):
            settled_after = passed
            late = f"within {plan.settled_within:g} s"
            findings[f"records not settled {late}"] = list(scene.find_settleable(old))
            findings[f"approved changes not applied {late}"] = [f"change request {each}" for each in left]
        waiting = [each.name for each in scene.clients if not each.is_finished]
        is_patient = passed < plan.answered_within or not all(each.has_done_everything for each in scene.clients)
        if settled_after is not None and not (waiting and is_patient) and not scene.is_anything_open():
            break
        if passed - reported > 10:
            reported = passed
            _logger.info(f"{len(waiting)} clients still wait for an answer")
        time.sleep(0.5)
    return settled_after or 0.0


def _differences(servers: Site, scene: Scene) -> Iterator[str]:
    """Yield the objects whose content differs between domain controllers."""
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(domain.connect())) for domain in servers.domains]
        first, *others = map(scene.read_objects, clients)
    for other in others:
        for guid in first.keys() | other.keys():
            one, two = _replicated_state(first.get(guid)), _replicated_state(other.get(guid))
            if one != two:
                yield f"{guid}: {one} and {two}"


def _tampering(servers: Site) -> Iterator[str]:
    try:
        servers.manage("verify_operations_log")
    except RuntimeError as error:
        yield str(error)


def _replicated_state(seen: ObservedObject | None) -> object:
    """The part of an object that all domain controllers must agree on."""
    if seen is None or seen.is_deleted:
        return "gone"
    names = (*ATTRIBUTES, "userAccountControl", "member")
    return seen.dn.lower(), sorted(seen.versions.items()), [sorted(seen.values.get(name, ())) for name in names]
