"""One campaign from the first server to the last finding. What is printed of it is `report`'s."""

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from faults.checks import CHECKS, Story
from faults.client import Connection
from faults.kinds import Kind, Striker, Struck, plan
from faults.observed import Database, Seen
from faults.scene import Scene
from faults.world import ATTRIBUTES
from lab.accounts.making import make_accounts
from lab.directory import Directory
from lab.domain import Domain, wait_until_even
from lab.gateway import Commands

WARM_UP = 2.0


@dataclass(frozen=True)
class Plan:
    """What a campaign is asked for. `pace` is the average time between two faults, `patience` the longest wait for
    what clients still have to hear after the last one, `longest` what any fault may last; all in seconds.

    A killed process is there again `back_within` 10 s, and `settled_within` 60 s after the last
    fault every record is settled whose outcome can be known.
    """

    faults: int
    database: str
    seed: int
    clients: int = 6
    pace: float = 3.0
    patience: float = 200.0
    back_within: float = 10.0
    settled_within: float = 60.0
    longest: float = math.inf


@dataclass
class Result:
    """What came of it: findings by target, the faults, and all that was compared."""

    plan: Plan
    findings: dict[str, list[str]]
    struck: list[Struck]
    story: Story
    settled_after: float
    by_server: dict[str, int]
    """How many changes each domain controller took."""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether every target was met."""
        return not any(self.findings.values())


class Site(Commands, Protocol):
    """What a campaign runs on: the gateway with all that it needs, as one host or many."""

    domains: list[Domain]
    """The domain, by each of its domain controllers."""
    database_url: str
    base_url: str

    @property
    def directory_urls(self) -> Sequence[str]:
        """Where the gateway finds the domain."""

    def start(self) -> None:
        """Start the gateway and look after it; the servers that it needs run already."""

    def wait_until_ready(self) -> None:
        """Wait until the gateway answers."""

    def ended_alone(self) -> list[str]:
        """The processes that ended although nobody had killed them."""


SiteOf = Callable[[Path], AbstractContextManager[Any]]
"""Starts the servers of a site in a directory, and ends all of it at the end."""


def run_campaign(
    wanted: Plan, directory: Path, *, say: Callable[[str], None], site: SiteOf, kinds: Sequence[Kind]
) -> Result:
    """Run it in a directory that its servers may use; logs, diaries and the records of changes stay there."""
    begun = time.monotonic()
    with site(directory) as servers, closing(servers.domains[0].connect()) as client:
        campaign = _Campaign(wanted, servers, client, kinds, say)
        campaign.run()
        for diary in campaign.result.story.diaries:
            diary.write(directory / f"{diary.client}.jsonl")
        _write(directory / "records.jsonl", (asdict(each) for each in campaign.result.story.records))
        _write(directory / "faults.jsonl", (_told(each) for each in campaign.result.struck))
    campaign.result.seconds = time.monotonic() - begun
    return campaign.result


def _write(file: Path, facts: Iterable[dict[str, Any]]) -> None:
    with file.open("w") as lines:
        lines.writelines(json.dumps(each, default=str) + "\n" for each in facts)


def _told(struck: Struck) -> dict[str, Any]:
    at = datetime.fromtimestamp(struck.at, UTC)
    return {"at": at, "seconds": struck.seconds, "fault": struck.name, "choice": struck.choice}


class _Campaign:
    """The servers, the clients and what was seen before."""

    def __init__(
        self, wanted: Plan, servers: Site, directory: Directory, kinds: Sequence[Kind], say: Callable[[str], None]
    ) -> None:
        self._wanted = wanted
        self._servers = servers
        self._kinds = kinds
        self._directory = directory
        self._say = say
        self._scene = Scene(
            directory,
            Database(servers.database_url),
            seed=wanted.seed,
            clients=wanted.clients,
            wait_until_even=lambda: wait_until_even(servers.domains),
        )
        self._findings: dict[str, list[str]] = {}
        self._settled_after = 0.0

    def run(self) -> None:
        """Load, faults, the end, the checks."""
        servers = self._servers
        people = make_accounts(servers, servers.domains[0], urls=servers.directory_urls, clients=self._wanted.clients)
        servers.start()
        self._say("the load begins")
        with self._scene.load(people, lambda: Connection(servers.base_url)) as approver:
            struck = self._strike()
            self._let_finish()
        story = self._scene.story(approver)
        self._say(f"checking {len(story.records)} records and {len(story.after)} objects")
        self._findings |= {name: list(check(story)) for name, check in CHECKS.items()}
        if len(servers.domains) > 1:
            self._findings["objects on which the domain controllers differ"] = list(self._differences())
        for target in sorted({kind.target for kind in self._kinds}, reverse=True):
            self._findings[target] = [each.complaint for each in struck if each.complaint and each.target == target]
        self._findings["processes that ended by themselves"] = servers.ended_alone()
        self._findings["operations log found tampered with"] = list(self._tampering())
        by_server = self._scene.database.changes_by_server()
        self.result = Result(self._wanted, self._findings, struck, story, self._settled_after, by_server)

    def _differences(self) -> Iterator[str]:
        """What the domain controllers hold of the same objects must be the same."""
        with ExitStack() as stack:
            clients = [stack.enter_context(closing(domain.connect())) for domain in self._servers.domains]
            first, *others = map(self._scene.look, clients)
        for other in others:
            for guid in first.keys() | other.keys():
                one, two = _comparable(first.get(guid)), _comparable(other.get(guid))
                if one != two:
                    yield f"{guid}: {one} and {two}"

    def _tampering(self) -> Iterator[str]:
        try:
            self._servers.manage("verify_operations_log")
        except RuntimeError as error:
            yield str(error)

    def _strike(self) -> list[Struck]:
        wanted = self._wanted
        faults = plan(
            random.Random(wanted.seed),
            kinds=self._kinds,
            count=wanted.faults,
            pace=wanted.pace,
            patience=wanted.back_within,
            longest=wanted.longest,
        )
        time.sleep(WARM_UP)
        striker = Striker(self._servers, faults)
        striker.start()
        told = 0
        while striker.is_alive():
            striker.join(10)
            self._scene.require_working()
            requests = sum(len(each.diary.requests) for each in self._scene.clients)
            self._say(f"{len(striker.struck)} faults, {requests} requests")
            for each in striker.struck[told:]:
                told += 1
                if each.complaint:  # said at once: what follows may be of it, and end the campaign before its report
                    self._say(each.complaint)
        return striker.struck

    def _let_finish(self) -> None:
        """Let everything come to its end; what is open after the time for settling is a finding."""
        begun = time.monotonic()
        for each in self._scene.clients:
            each.finish()
        self._servers.wait_until_ready()
        self._directory.reconnect()  # a domain controller closes a connection that said nothing for 15 minutes
        old, old_requests = set(self._scene.database.open_records()), set(self._scene.requests_under_way())
        promised = self._wanted.settled_within
        late = f"records not settled within {promised:g} s"
        waiting_requests = f"approved changes not applied within {promised:g} s"
        told = 0.0
        while (passed := time.monotonic() - begun) < max(self._wanted.patience, promised):
            self._scene.require_working()
            left = sorted(old_requests & set(self._scene.requests_under_way()))
            is_settled = not old & set(self._scene.database.open_records()) and not left
            if late not in self._findings and (is_settled or passed > promised):
                self._settled_after = passed
                self._findings[late] = list(self._scene.knowable(old))
                self._findings[waiting_requests] = [f"change request {each}" for each in left]
            waiting = [each.name for each in self._scene.clients if not each.is_finished]
            is_patient = passed < self._wanted.patience or not all(
                each.has_done_everything for each in self._scene.clients
            )
            if late in self._findings and not (waiting and is_patient) and not self._scene.is_anything_open():
                return
            if passed - told > 10:
                told = passed
                self._say(f"{len(waiting)} clients still wait for an answer")
            time.sleep(0.5)


def _comparable(seen: Seen | None) -> object:
    """What of an object must be the same everywhere."""
    if seen is None or seen.is_deleted:
        return "gone"
    names = (*ATTRIBUTES, "userAccountControl", "member")
    return seen.dn.lower(), sorted(seen.versions.items()), [sorted(seen.values.get(name, ())) for name in names]
