"""One campaign from the first server to the last finding. What is printed of it is `report`'s."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from faults.checks import CHECKS, Story
from faults.kinds import KINDS, Kind, Striker, Struck, plan
from faults.load import Approver, LoadedClient
from faults.observed import Database, Seen, calibrate, look, look_for_deleted
from faults.servers import running_servers
from faults.world import make_places
from tests.support.directory import Directory
from tests.support.domain import Domain

WARM_UP = 2.0
UNDER_WAY = ("approved", "applying", "unknown")
"""States of change requests with which something is still to happen."""


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
    by_server: dict[str, int]
    """How many changes each domain controller took."""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether every target was met."""
        return not any(self.findings.values())


class Site(Protocol):
    """What a campaign runs on: the gateway with all that it needs, as one host or many."""

    domain: Domain
    database_url: str
    base_url: str

    @property
    def directory_urls(self) -> list[str]:
        """Where the gateway finds the domain."""

    def start(self) -> None:
        """Start the gateway and watch over it; the servers that it needs run already."""

    def wait_until_ready(self) -> None:
        """Until the gateway answers."""

    def wait_until_even(self, directory: Directory) -> None:
        """Until every domain controller has what one of them has."""

    def run(self, command: Sequence[str], *, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command in the gateway's environment."""

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a management command of the gateway."""

    def differences(self, seen: Callable[[Directory], Mapping[str, Seen]]) -> dict[str, list[str]]:
        """Findings by target of what several domain controllers make of the same objects."""


SiteOf = Callable[[Path], AbstractContextManager[Any]]
"""Starts the servers of a site in a directory, and ends all of it at the end."""


def run_campaign(
    wanted: Plan, directory: Path, *, say: Callable[[str], None], site: SiteOf | None = None, kinds: Sequence[Kind] = ()
) -> Result:
    """Run it in a directory that its servers may use; logs and diaries stay there.

    On one host unless a `site` is given, with the kinds of faults that it can have.
    """
    begun = time.monotonic()
    running = site(directory) if site is not None else running_servers(directory, database=wanted.database)
    kinds = kinds or [kind for kind in KINDS if wanted.database in kind.databases]
    with running as servers, closing(servers.domain.connect()) as client:
        campaign = _Campaign(wanted, servers, client, kinds, say)
        campaign.run()
        for diary in campaign.result.story.diaries:
            diary.write(directory / f"{diary.client}.jsonl")
    campaign.result.seconds = time.monotonic() - begun
    return campaign.result


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
        self._database = Database(servers.database_url)
        self._base = directory.add_unit(f"Campaign {wanted.seed}")
        self._places = make_places(directory, self._base, wanted.clients)
        self._calibration = calibrate(directory, self._base)
        servers.wait_until_even(directory)
        self._before = look(directory, self._base, (), self._calibration)
        self._deleted_before = look_for_deleted(directory, self._base)
        self._clients: list[LoadedClient] = []
        self._findings: dict[str, list[str]] = {}
        self._settled_after = 0.0
        self._named: set[str] = set()

    def run(self) -> None:
        """Load, faults, the end, the checks."""
        people = self._prepare()
        self._servers.start()
        self._say("the load begins")
        with self._load(people) as approver:
            struck = self._strike()
            self._let_finish()
        story = self._story(approver)
        self._say(f"checking {len(story.records)} records and {len(story.after)} objects")
        self._findings |= {name: list(check(story)) for name, check in CHECKS.items()}
        self._findings |= self._servers.differences(self._look)
        for target in sorted({kind.target for kind in self._kinds}, reverse=True):
            self._findings[target] = [
                each.complaint for each in struck if each.complaint and each.fault.kind.target == target
            ]
        verified = self._servers.manage("verify_operations_log")
        self._findings["operations log found tampered with"] = [verified.stderr] if verified.returncode else []
        self.result = Result(
            self._wanted, self._findings, struck, story, self._settled_after, self._database.changes_by_server()
        )

    def _prepare(self) -> dict[str, Any]:
        domain = self._servers.domain
        asked = {
            "urls": self._servers.directory_urls,
            "baseDn": domain.base_dn,
            "bindDn": domain.bind_dn,
            "bindPassword": domain.bind_password,
            "caCertificate": domain.ca_pem,
            "clients": self._wanted.clients,
        }
        made = self._servers.run([sys.executable, "-m", "faults.prepare"], given=json.dumps(asked))
        if made.returncode != 0:
            raise RuntimeError(f"the campaign's keys could not be made:\n{made.stderr}")
        people: dict[str, Any] = json.loads(made.stdout)
        return people

    @contextmanager
    def _load(self, people: dict[str, Any]) -> Iterator[Approver]:
        url, seed = self._servers.base_url, self._wanted.seed
        self._clients = [
            LoadedClient(
                f"client{number}",
                place,
                base_url=url,
                key=people["keys"][number],
                careful_key=people["careful"][number],
                choices=random.Random(f"{seed}-{number}"),
            )
            for number, place in enumerate(self._places)
        ]
        approver = Approver(url, **people["approver"], choices=random.Random(f"{seed}-approver"))
        threads: list[LoadedClient | Approver] = [*self._clients, approver]
        for thread in threads:
            thread.start()
        try:
            yield approver
        finally:
            for thread in threads:
                thread.end()
            for thread in threads:
                thread.join(60)

    def _strike(self) -> list[Struck]:
        wanted = self._wanted
        faults = plan(
            random.Random(wanted.seed),
            kinds=self._kinds,
            count=wanted.faults,
            pace=wanted.pace,
            patience=wanted.back_within,
        )
        time.sleep(WARM_UP)
        striker = Striker(self._servers, faults)
        striker.start()
        while striker.is_alive():
            striker.join(10)
            self._require_working()
            requests = sum(len(each.diary.requests) for each in self._clients)
            self._say(f"{len(striker.struck)} faults, {requests} requests")
        return striker.struck

    def _require_working(self) -> None:
        for each in self._clients:
            if each.failure is not None:
                raise RuntimeError(f"{each.name} is at fault itself") from each.failure

    def _let_finish(self) -> None:
        """Let everything come to its end; what is open after the time for settling is a finding."""
        begun = time.monotonic()
        for each in self._clients:
            each.finish()
        self._servers.wait_until_ready()
        self._directory.reconnect()  # a domain controller closes a connection that said nothing for 15 minutes
        old, old_requests = set(self._database.open_records()), set(self._requests_under_way())
        promised = self._wanted.settled_within
        late = f"records not settled within {promised:g} s"
        waiting_requests = f"approved changes not applied within {promised:g} s"
        told = 0.0
        while (passed := time.monotonic() - begun) < max(self._wanted.patience, promised):
            self._require_working()
            left = sorted(old_requests & set(self._requests_under_way()))
            is_settled = not old & set(self._database.open_records()) and not left
            if late not in self._findings and (is_settled or passed > promised):
                self._settled_after = passed
                self._findings[late] = list(self._knowable(old))
                self._findings[waiting_requests] = [f"change request {each}" for each in left]
            waiting = [each.name for each in self._clients if not each.is_finished]
            is_patient = passed < self._wanted.patience or not all(each.has_done_everything for each in self._clients)
            if late in self._findings and not (waiting and is_patient) and not self._is_anything_open():
                return
            if passed - told > 10:
                told = passed
                self._say(f"{len(waiting)} clients still wait for an answer")
            time.sleep(0.5)

    def _is_anything_open(self) -> bool:
        return (
            bool(self._database.open_records())
            or any(state != "completed" for _, state, _, _ in self._database.runs())
            or bool(self._requests_under_way())
        )

    def _requests_under_way(self) -> list[str]:
        return [each for each, (status, _) in self._database.change_requests().items() if status in UNDER_WAY]

    def _knowable(self, old: set[str]) -> Iterator[str]:
        """The open ones of these records whose object is there: nothing stands in the way of looking."""
        for record, target in self._database.open_records().items():
            if record in old and (target is None or self._directory.exists(UUID(target))):
                yield f"record {record} about {target}"

    def _story(self, approver: Approver) -> Story:
        self._servers.wait_until_even(self._directory)
        records = self._database.changes()
        deleted = look_for_deleted(self._directory, self._base) - self._deleted_before
        self._named = {record.target for record in records if record.target is not None} | set(self._before) | deleted
        return Story(
            diaries=[each.diary for each in self._clients],
            records=records,
            before=self._before,
            after=self._look(self._directory),
            calibration=self._calibration,
            decisions=approver.decisions,
            change_requests=self._database.change_requests(),
            runs=self._database.runs(),
            can_sign_in=frozenset(self._passwords_that_work()),
        )

    def _look(self, directory: Directory) -> Mapping[str, Seen]:
        return look(directory, self._base, self._named, self._calibration)

    def _passwords_that_work(self) -> Iterator[tuple[str, str]]:
        for each in self._clients:
            diary = each.diary
            candidates = [(key, value) for key, value in diary.facts.items()]
            candidates += [(key, value) for key, values in diary.open_values().items() for value in values]
            for key, password in candidates:
                if key[0] == "password" and self._directory.can_sign_in(UUID(key[1]), password):
                    yield key[1], password
