"""`make upgrade-test`: one release follows another under load, back and forth, and then all stories are compared.

The release before this tree runs its web server and its worker. While clients write and read, this tree's `migrate`
changes the tables under it; then this tree's processes work beside it, then alone. At last the old ones come back, on
the tables as they are now: that is how a release is taken back. Nobody waits for an answer in vain at any time, and
nothing is lost, done twice or unrecorded.
"""

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from faults.checks import CHECKS, Story
from faults.client import Balanced
from faults.handover import Handover, Reader
from faults.observed import Database
from faults.scene import Scene
from faults.servers import SETTINGS
from lab.accounts.making import make_accounts
from lab.domain import Domain, running_domain
from lab.gateway import LiveGateway, Stores, running_stores, settings_of_gateway
from lab.http import LoadBalancer
from lab.releases import PRESENT, NoHistory, Release, previous_release
from lab.waiting import wait_until

PATIENCE = 300.0
"""Seconds for whatever has to happen. No test may depend on a quiet machine."""
_COMPLAINT = re.compile(r"^\S+ (?:error|critical) .*", re.MULTILINE)


@dataclass(frozen=True)
class Plan:
    """What is asked for: how many clients, and how often each of them asks for everything in each stage."""

    seed: int
    clients: int = 3
    rounds: int = 2


@dataclass
class Result:
    """What came of it: findings by target, the answers by status, and how long each stage took in seconds."""

    findings: dict[str, list[str]] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether nothing was found."""
        return not any(self.findings.values())


def run_upgrade(wanted: Plan, before: Release, domain: Domain, stores: Stores, place: Path) -> Result:
    """From the release before to this tree and back, on an empty database; logs stay in the folder."""
    settings = settings_of_gateway(place, database_url=stores.database_url, redis_url=stores.redis.url) | SETTINGS
    with ExitStack() as stack:
        hosts = []
        for name, release in (("old", before), ("new", PRESENT), ("old-again", before)):
            hosts.append(make_host(name, release, place, settings))
            stack.callback(hosts[-1].stop)
        directory = stack.enter_context(closing(domain.connect()))
        scene = Scene(directory, Database(stores.database_url), seed=wanted.seed, clients=wanted.clients, spare=1)
        return _Upgrade(wanted, domain, scene, hosts).run()


def make_host(name: str, release: Release, place: Path, settings: Mapping[str, str]) -> LiveGateway:
    """A host on which web server and worker of one release run; not started."""
    folder = place / name
    environment = {**settings, "GATEWAY_DATA_DIR": str(folder / "data")}
    return LiveGateway(folder, environment, release=release, processes=1, name=name)


def complaints(host: LiveGateway) -> Iterator[str]:
    """What its processes logged as errors."""
    for service in host.services:
        if service.log_file.exists():
            yield from (f"{service.name}: {line}" for line in _COMPLAINT.findall(service.log_file.read_text()))


class _Upgrade:
    """The hosts, the clients, and what was found so far."""

    def __init__(self, wanted: Plan, domain: Domain, scene: Scene, hosts: Sequence[LiveGateway]) -> None:
        self._wanted = wanted
        self._domain = domain
        self._scene = scene
        self._old, self._new, self._old_again = hosts
        self._balancer = LoadBalancer()
        self._result = Result()

    def run(self) -> Result:
        """Upgrade, downgrade, the checks."""
        old, new, again = self._old, self._new, self._old_again
        with self._stage("the release before on its own tables"):
            old.manage("migrate", "-v0")
            people = make_accounts(old, self._domain, urls=[self._domain.url], clients=self._wanted.clients + 1)
            old.start()
            self._balancer.ask(old.base_url)
        handover = Handover(Balanced(self._balancer), people, self._scene.spare[0])
        reader = Reader(Balanced(self._balancer), people["keys"][-1])
        with self._scene.load(people, lambda: Balanced(self._balancer), leave=handover.objects) as approver:
            reader.start()
            try:
                handover.begin("old")
                with self._stage("the tables change under it"):
                    new.manage("migrate", "-v0")
                    self._let_work()
                with self._stage("both side by side"):
                    new.start()
                    self._balancer.ask(old.base_url, new.base_url)
                    self._let_work()
                with self._stage("this tree alone"):
                    self._balancer.ask(new.base_url)
                    old.stop()
                    handover.finish()
                    handover.begin("new")
                    self._let_work()
                with self._stage("the release before again"):
                    again.start()
                    self._balancer.ask(new.base_url, again.base_url)
                    self._let_work()
                    self._balancer.ask(again.base_url)
                    new.stop()
                    handover.finish()
                    self._let_work()
                with self._stage("everything comes to its end"):
                    let_finish(self._scene)
            finally:
                reader.end()
                reader.join(PATIENCE)
        story = self._scene.story(approver)
        findings = self._result.findings
        findings |= {name: list(check(story)) for name, check in CHECKS.items()}
        findings["reads that were not answered"] = list(reader.findings)
        findings["changes that were not answered"] = list(unanswered(story))
        findings["what was begun and not finished"] = handover.findings
        findings["errors in a process's log"] = [each for host in (old, new, again) for each in complaints(host)]
        for host in (new, again):
            host.manage("verify_operations_log")
        self._result.answers.update(status for _, status in reader.answers)
        self._result.answers.update(each.status for request in story.requests for each in request.attempts)
        return self._result

    def _let_work(self) -> None:
        for _ in range(self._wanted.rounds):
            let_work(self._scene)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self._result.stages[name] = time.monotonic() - begun


def let_work(scene: Scene) -> None:
    """Until each client has asked for everything once more."""
    for each in scene.clients:
        each.begin_anew()
    _wait(scene, lambda: all(each.has_done_everything for each in scene.clients))


def let_finish(scene: Scene) -> None:
    """Until each client has heard of all that it asked for, and nothing is open."""
    for each in scene.clients:
        each.finish()
    _wait(scene, lambda: all(each.is_finished for each in scene.clients))
    _wait(scene, lambda: not scene.is_anything_open())


def unanswered(story: Story) -> Iterator[str]:
    """Requests whose client lost its connection or was told of an error of the server's."""
    for request in story.requests:
        for attempt in request.attempts:
            if not 0 < attempt.status < 500:
                yield f"{request.id} {request.operation}: {attempt.status} {attempt.code}"


def _wait(scene: Scene, is_over: Callable[[], bool]) -> None:
    def is_over_and_well() -> bool:
        scene.require_working()
        return is_over()

    wait_until(is_over_and_well, PATIENCE, "the clients wait in vain")


def report(result: Result) -> Iterator[str]:
    """Lines for a person."""
    for name, seconds in result.stages.items():
        yield f"{seconds:6.1f} s  {name}"
    answers = ", ".join(f"{count} × {status or 'connection lost'}" for status, count in result.answers.most_common())
    yield f"Answers: {answers}"
    for name, found in result.findings.items():
        yield f"{len(found):6}    {name}"
        yield from (f"            {each}" for each in found[:12])


def main() -> int:
    """0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m faults.upgrade", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="makes the same choices again")
    parser.add_argument("--clients", type=int, default=6, help="client threads (default 6)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each asks for everything in each stage")
    arguments = parser.parse_args()
    try:
        before = previous_release()
    except NoHistory as error:
        print(f"The release before cannot be had: {error}", file=sys.stderr)
        return 1
    place = Path(tempfile.mkdtemp(prefix="gateway-upgrade-"))
    place.chmod(0o755)  # PostgreSQL runs as another user and keeps its part of it to itself
    print(f"From {before.name}, seed {arguments.seed}, logs in {place}", flush=True)
    with running_domain(place / "domain") as domain, running_stores(place, database="postgresql") as stores:
        plan = Plan(arguments.seed, arguments.clients, arguments.rounds)
        result = run_upgrade(plan, before, domain, stores, place)
    print("\n".join(report(result)))
    if result.is_good:
        shutil.rmtree(place, ignore_errors=True)
    return 0 if result.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
