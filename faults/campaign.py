"""Runs a campaign, from the first server to the last finding. `report` prints it."""

import json
import logging
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from faults.checks import CHECKS, Story
from faults.client import working
from faults.kinds import Fault, Kind
from faults.lending import NO_LENDING, Lending
from faults.scene import Scene
from faults.servers import Servers
from lab.accounts.making import make_accounts
from lab.cluster.cluster import Cluster
from lab.http import LoadBalancer
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


@dataclass(frozen=True)
class FaultResult:
    """The result of a fault: when it began, its seconds until recovery, and what was wrong with the recovery."""

    name: str
    target: str
    choice: float
    at: float
    seconds: float
    complaint: str | None


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


Site = Servers | Cluster
"""The gateway with everything that it needs, on one host or many."""
SiteOf = Callable[[Path], AbstractContextManager[Site]]
"""Starts the servers of a site in a directory, but for the gateway, and stops all of them at the end."""


def run_campaign(plan: Plan, directory: Path, *, site: SiteOf, kinds: Sequence[Kind]) -> Result:
    """Run a campaign. The directory is for its servers; logs, diaries and the records of changes stay there."""
    started = time.monotonic()
    findings: dict[str, list[str]] = {}
    with site(directory) as servers:
        domains = servers.domains
        accounts = make_accounts(servers, domains[0], urls=servers.directory_urls, clients=plan.clients)
        balancer = LoadBalancer()
        balancer.use(servers.base_url)
        with closing(
            Scene(
                domains,
                servers.database_url,
                accounts,
                balancer,
                seed=plan.seed,
                clients=plan.clients,
                lending=plan.lending,
            )
        ) as scene:
            servers.start()
            _logger.info("the load begins")
            with working(*scene.workers):
                struck = _strike(plan, servers, scene, kinds)
                for lender in scene.lenders:
                    lender.finish()
                settled_after = _wait_for_end(plan, servers, scene, findings)
            # What a client or the approver has asked for at the last moment.
            with suppress(TimedOut):  # the checks say what is still open then
                wait_until(lambda: not scene.is_anything_open(), plan.settled_within)
            story = scene.story()
            story.faults = [(each.at, each.at + each.seconds) for each in struck]
            _logger.info(f"checking {len(story.records)} records and {len(story.after)} objects")
            findings |= {name: list(check(story)) for name, check in CHECKS.items()}
            if len(domains) > 1:
                findings["objects on which the domain controllers differ"] = list(scene.differences(story))
        for target in sorted({kind.target for kind in kinds}, reverse=True):
            findings[target] = [each.complaint for each in struck if each.complaint and each.target == target]
        findings["processes that ended by themselves"] = [
            end for service in servers.watched for end in service.unexpected_ends
        ]
        findings["operations log found tampered with"] = list(_tampering(servers))
    for diary in story.diaries:
        _write(directory / f"{diary.client}.jsonl", diary.requests)
    _write(directory / "records.jsonl", story.records)
    _write(directory / "faults.jsonl", struck)
    return Result(plan, findings, struck, story, settled_after, time.monotonic() - started)


def _write(file: Path, facts: Iterable[Any]) -> None:
    """Write facts for people who investigate; the credentials among them are useless by then."""
    file.write_text("".join(json.dumps(asdict(each), default=str) + "\n" for each in facts))


def plan_faults(plan: Plan, kinds: Sequence[Kind]) -> list[Fault]:
    """Plan faults at random times, determined by the seed; each kind comes once before any comes twice."""
    choices = random.Random(plan.seed)
    chosen = choices.sample(kinds, min(plan.faults, len(kinds)))
    chosen += choices.choices(kinds, [kind.weight for kind in kinds], k=plan.faults - len(chosen))
    choices.shuffle(chosen)

    def planned(kind: Kind) -> Fault:
        pause, seconds = choices.expovariate(1 / plan.pace), choices.uniform(*kind.seconds)
        return Fault(kind, pause, seconds, choices.random(), plan.patience)

    return [planned(kind) for kind in chosen]


def _strike(plan: Plan, servers: Site, scene: Scene, kinds: Sequence[Kind]) -> list[FaultResult]:
    """Cause the faults, and return when all of them are over."""
    faults = plan_faults(plan, kinds)
    victims = {kind.victim: threading.Lock() for kind in kinds}

    def strike(fault: Fault) -> FaultResult:
        at, begun, complaint = time.time(), time.monotonic(), None
        try:
            fault.kind.strike(servers, fault)
        except (OSError, RuntimeError, psycopg.Error, sqlite3.Error) as error:
            complaint = f"{fault.kind.name}: {error}"
            _logger.warning(complaint)  # at once: it may cause what ends the campaign before its report
        finally:
            victims[fault.kind.victim].release()
        seconds = time.monotonic() - begun
        return FaultResult(fault.kind.name, fault.kind.target, fault.choice, at, seconds, complaint)

    time.sleep(WARM_UP)
    with ThreadPoolExecutor(len(victims)) as pool:
        under_way = []
        for number, fault in enumerate(faults):
            time.sleep(fault.pause)
            victims[fault.kind.victim].acquire()
            under_way.append(pool.submit(strike, fault))
            scene.require_working()
            if number % 10 == 0:
                requests = sum(len(each.diary.requests) for each in scene.clients)
                _logger.info(f"{number} faults, {requests} requests")
        return [each.result() for each in under_way]


def _wait_for_end(plan: Plan, servers: Site, scene: Scene, findings: dict[str, list[str]]) -> float:
    """Wait until everything has ended; what is open after the time for settling is a finding.

    Return after how many seconds the records and approved changes of now were settled, or found not to be.
    """
    started = time.monotonic()
    for client in scene.clients:
        client.finish()
    for service in servers.watched:
        service.wait_until_ready()
    old, old_requests = set(scene.database.open_records()), scene.requests_under_way()

    def is_settled() -> bool:
        return not old & set(scene.database.open_records()) and not old_requests & scene.requests_under_way()

    def is_over() -> bool:
        is_in_time = time.monotonic() < started + plan.answered_within
        is_patient = is_in_time or not all(client.has_done_everything for client in scene.clients)
        is_waiting = is_patient and not all(client.is_finished for client in scene.clients)
        return not is_waiting and not scene.is_anything_open()

    with suppress(TimedOut):
        scene.wait_until(is_settled, started + plan.settled_within - time.monotonic())
    settled_after = time.monotonic() - started
    late = f"within {plan.settled_within:g} s"
    findings[f"records not settled {late}"] = list(scene.find_settleable(old))
    still_open = old_requests & scene.requests_under_way()
    findings[f"approved changes not applied {late}"] = [f"change request {each}" for each in sorted(still_open)]
    _logger.info("waiting for answers and for what clients asked for at the end")
    with suppress(TimedOut):  # the checks say what is still open then
        scene.wait_until(is_over, max(plan.answered_within, plan.settled_within) - settled_after)
    return settled_after


def _tampering(servers: Site) -> Iterator[str]:
    try:
        servers.manage("verify_operations_log")
    except RuntimeError as error:
        yield str(error)
