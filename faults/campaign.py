"""One campaign from the first server to the last finding. What is printed of it is `report`'s."""

import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from faults.checks import CHECKS, Story
from faults.client import Http
from faults.kinds import KINDS, Striker, Struck, plan
from faults.observed import Database
from faults.scene import Scene, make_people
from faults.servers import Servers, running_servers
from tests.support.directory import Directory

WARM_UP = 2.0


@dataclass(frozen=True)
class Plan:
    """What a campaign is asked for. `pace` is the average time between two faults, `patience` the longest wait for
    what clients still have to hear after the last one; both in seconds.

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


@dataclass
class Result:
    """What came of it: findings by target, the faults, and all that was compared."""

    plan: Plan
    findings: dict[str, list[str]]
    struck: list[Struck]
    story: Story
    settled_after: float
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether every target was met."""
        return not any(self.findings.values())


def run_campaign(wanted: Plan, directory: Path, *, say: Callable[[str], None]) -> Result:
    """Run it in a directory that its servers may use; logs and diaries stay there."""
    begun = time.monotonic()
    with running_servers(directory, database=wanted.database) as servers, closing(servers.domain.connect()) as client:
        campaign = _Campaign(wanted, servers, client, say)
        campaign.run()
        for diary in campaign.result.story.diaries:
            diary.write(directory / f"{diary.client}.jsonl")
    campaign.result.seconds = time.monotonic() - begun
    return campaign.result


class _Campaign:
    """The servers, the clients and what was seen before."""

    def __init__(self, wanted: Plan, servers: Servers, directory: Directory, say: Callable[[str], None]) -> None:
        self._wanted = wanted
        self._servers = servers
        self._directory = directory
        self._say = say
        self._scene = Scene(directory, Database(servers.database_url), seed=wanted.seed, clients=wanted.clients)
        self._findings: dict[str, list[str]] = {}
        self._settled_after = 0.0

    def run(self) -> None:
        """Load, faults, the end, the checks."""
        servers = self._servers
        people = make_people(
            lambda command, given: servers.run(command, given=given),
            [sys.executable, "-m", "faults.prepare"],
            servers.domain,
            url=servers.proxy.url,
            clients=self._wanted.clients,
        )
        servers.start()
        self._say("the load begins")
        with self._scene.load(people, lambda: Http(servers.base_url)) as approver:
            struck = self._strike()
            self._let_finish()
        story = self._scene.story(approver)
        self._say(f"checking {len(story.records)} records and {len(story.after)} objects")
        self._findings |= {name: list(check(story)) for name, check in CHECKS.items()}
        for target in sorted({kind.target for kind in KINDS}, reverse=True):
            self._findings[target] = [
                each.complaint for each in struck if each.complaint and each.fault.kind.target == target
            ]
        verified = servers.manage("verify_operations_log")
        self._findings["operations log found tampered with"] = [verified.stderr] if verified.returncode else []
        self.result = Result(self._wanted, self._findings, struck, story, self._settled_after)

    def _strike(self) -> list[Struck]:
        wanted = self._wanted
        faults = plan(
            random.Random(wanted.seed),
            count=wanted.faults,
            database=wanted.database,
            pace=wanted.pace,
            patience=wanted.back_within,
        )
        time.sleep(WARM_UP)
        striker = Striker(self._servers, faults)
        striker.start()
        while striker.is_alive():
            striker.join(10)
            self._scene.require_working()
            requests = sum(len(each.diary.requests) for each in self._scene.clients)
            self._say(f"{len(striker.struck)} faults, {requests} requests")
        return striker.struck

    def _let_finish(self) -> None:
        """Let everything come to its end; what is open after the time for settling is a finding."""
        begun = time.monotonic()
        for each in self._scene.clients:
            each.finish()
        self._servers.web.wait_until_ready()
        self._directory.reconnect()  # a domain controller closes a connection that said nothing for 15 minutes
        old = set(self._scene.database.open_records())
        promised = self._wanted.settled_within
        late = f"records not settled within {promised:g} s"
        told = 0.0
        while (passed := time.monotonic() - begun) < max(self._wanted.patience, promised):
            self._scene.require_working()
            is_settled = not old & set(self._scene.database.open_records())
            if late not in self._findings and (is_settled or passed > promised):
                self._settled_after = passed
                self._findings[late] = list(self._scene.knowable(old))
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
