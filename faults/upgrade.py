"""`make upgrade-test`: upgrade under load and roll back, then compare all accounts of what happened.

Web server and worker of the previous release run first. While clients write and read, this tree's `migrate` changes
the tables; then this tree's processes run beside the old ones, then alone. At last the old ones return, on the new
tables, which is how a release is rolled back. Every request is answered at all times, and nothing is lost, done twice
or unrecorded. The log is long, and while its tables change under a vacuum, nobody who writes waits long for a lock.
"""

import argparse
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg

from faults.checks import CHECKS, Story
from faults.client import Worker, working
from faults.handover import Handover, Reader
from faults.scene import Scene
from faults.servers import SETTINGS
from lab.accounts.making import make_accounts
from lab.domain import Domain, running_domain
from lab.gateway import LiveGateway, Stores, gateway_settings, running_stores
from lab.http import LoadBalancer
from lab.long_log import write_long_log
from lab.releases import THIS_TREE, NoHistory, Release, previous_release

TIMEOUT = 300.0
"""Seconds. Generous, since the machine may be busy."""
_ERROR_LINE = re.compile(r"^\S+ (?:error|critical) .*", re.MULTILINE)


def make_host(name: str, release: Release, folder: Path, settings: Mapping[str, str]) -> LiveGateway:
    """A host for web server and worker of one release, which are not started yet."""
    own_folder = folder / name
    environment = {**settings, "GATEWAY_DATA_DIR": str(own_folder / "data")}
    return LiveGateway(own_folder, environment, release=release, processes=1, name=name)


LOCK_SECONDS = 0.5
"""How long who writes to the log may wait for a lock."""


class WriterBeside(Worker):
    """Writes to the log all the time, and takes it back; beside a vacuum that takes its time at first."""

    def __init__(self, url: str) -> None:
        super().__init__("writer")
        self.findings: list[str] = []
        self.longest = 0.0
        self.count = 0
        self._url = url

    def run(self) -> None:
        vacuum = threading.Thread(target=self._vacuum_slowly, name="vacuum", daemon=True)
        vacuum.start()
        with psycopg.connect(self._url, autocommit=True) as database:
            database.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
            found = database.execute("SELECT * FROM audit_operationrecord LIMIT 0").description or ()
            columns = ", ".join(f'"{column.name}"' for column in found if column.name != "id")
            database.execute("CREATE TEMPORARY TABLE copied AS SELECT * FROM audit_operationrecord LIMIT 1")
            insert = f"INSERT INTO audit_operationrecord (id, {columns}) SELECT %s, {columns} FROM copied"  # noqa: S608
            while not self._ended.wait(0.02):
                began = time.monotonic()
                try:
                    with database.transaction(force_rollback=True):
                        identifier = f"{time.time_ns() // 1_000_000:012x}7{uuid4().hex[13:]}"
                        database.execute(insert, [identifier])
                except psycopg.errors.LockNotAvailable:
                    self.findings.append(f"at {time.strftime('%H:%M:%S')}")
                self.longest = max(self.longest, time.monotonic() - began)
                self.count += 1
        vacuum.join()

    def _vacuum_slowly(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as database:
            database.execute("SET vacuum_cost_delay = 5")
            database.execute("VACUUM (DISABLE_PAGE_SKIPPING) audit_operationrecord")


def logged_errors(host: LiveGateway) -> Iterator[str]:
    """Yield the errors that its processes logged."""
    for service in host.services:
        if service.log_file.exists():
            yield from (f"{service.name}: {line}" for line in _ERROR_LINE.findall(service.log_file.read_text()))


def run_upgrade(
    plan: argparse.Namespace, before: Release, domain: Domain, stores: Stores, folder: Path
) -> dict[str, list[str]]:
    """Upgrade from the previous release to this tree and back, and print what happens; logs stay in the folder.

    The plan has the arguments of the command. Return the findings by target.
    """
    with ExitStack() as stack:
        settings = gateway_settings(folder, database_url=stores.database_url, redis_url=stores.redis.url) | SETTINGS
        releases = {"old": before, "new": THIS_TREE, "old-again": before}
        old, new, old_again = hosts = [make_host(name, release, folder, settings) for name, release in releases.items()]
        for host in hosts:
            stack.callback(host.stop)
        balancer = LoadBalancer()

        @contextmanager
        def stage(name: str, *, rounds: int = plan.rounds) -> Iterator[None]:
            """Print how long it takes until everything has happened and clients have done that many rounds since."""
            started = time.monotonic()
            yield
            for _ in range(rounds):
                run_round(scene)
            print(f"{time.monotonic() - started:6.1f} s  {name}", flush=True)

        with stage("the release before on its own tables", rounds=0):
            old.manage("migrate", "-v0")
            write_long_log(old, plan.records)
            accounts = make_accounts(old, domain, urls=[domain.url], clients=plan.clients + 1)
            scene = Scene([domain], stores.database_url, accounts, balancer, seed=plan.seed, clients=plan.clients)
            stack.enter_context(closing(scene))
            old.start()
            balancer.use(old.base_url)
        handover = Handover(balancer, accounts, scene.spare[0])
        reader, writer = Reader(balancer, accounts["keys"][-1]), WriterBeside(stores.database_url)
        with working(*scene.workers, reader):
            finish_old = handover.begin("old")
            with stage("the tables change under it"), working(writer):
                new.manage("migrate", "-v0")
            with stage("both side by side"):
                new.start()
                balancer.use(old.base_url, new.base_url)
            with stage("this tree alone"):
                balancer.use(new.base_url)
                old.stop()
                finish_old()
                finish_new = handover.begin("new")
            with stage("both again"):
                old_again.start()
                balancer.use(new.base_url, old_again.base_url)
            with stage("the release before again"):
                balancer.use(old_again.base_url)
                new.stop()
                finish_new()
            with stage("everything comes to its end", rounds=0):
                wait_for_end(scene)
        story = scene.story()
        for host in (new, old_again):
            host.manage("verify_operations_log")
    statuses = Counter(each.status for request in story.requests for each in request.attempts)
    statuses.update(status for _, status in reader.answers)
    print("Answers:", ", ".join(f"{count} × {status or 'connection lost'}" for status, count in statuses.most_common()))
    print(f"The slowest write to the log while its tables changed: {writer.longest:.2f} s")
    return {name: list(check(story)) for name, check in CHECKS.items()} | {
        "reads that were not answered": reader.findings,
        "changes that were not answered": list(unanswered(story)),
        "what was begun and not finished": handover.findings,
        f"writers that waited {LOCK_SECONDS} s for a lock": writer.findings,
        "writes while the tables changed": [] if writer.count > 10 else [str(writer.count)],
        "errors in a process's log": [each for host in hosts for each in logged_errors(host)],
    }


def run_round(scene: Scene) -> None:
    """Wait until each client has performed every action once more."""
    for each in scene.clients:
        each.repeat_everything()
    scene.wait_until(lambda: all(each.has_done_everything for each in scene.clients), TIMEOUT)


def wait_for_end(scene: Scene) -> None:
    """Wait until each client knows all its results, and nothing is open."""
    for each in scene.clients:
        each.finish()
    scene.wait_until(lambda: all(each.is_finished for each in scene.clients), TIMEOUT)
    scene.wait_until(lambda: not scene.is_anything_open(), TIMEOUT)


def unanswered(story: Story) -> Iterator[str]:
    """Yield attempts that ended with a lost connection or a server error."""
    for request in story.requests:
        for attempt in request.attempts:
            if not 0 < attempt.status < 500:
                yield f"{request.id} {request.operation}: {attempt.status} {attempt.code}"


def main() -> int:
    """Return 0 if there are no findings."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m faults.upgrade", description=__doc__, formatter_class=formatter)
    add = partial(parser.add_argument, type=int)
    add("--seed", default=random.randrange(10**6), help="makes the same choices again")
    add("--clients", default=6, help="client threads")
    add("--rounds", default=5, help="how often each asks for everything in each stage")
    add("--records", default=1_000_000, help="in the log before")
    plan = parser.parse_args()
    try:
        before = previous_release()
    except NoHistory as error:
        print(f"The release before cannot be had: {error}", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="gateway-upgrade-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user, in a private folder below
    print(f"From {before.name}, seed {plan.seed}, logs in {folder}", flush=True)
    with running_domain(folder / "domain") as domain, running_stores(folder, database="postgresql") as stores:
        findings = run_upgrade(plan, before, domain, stores, folder)
    for name, found in findings.items():
        print(f"{len(found):6}    {name}", *found[:12], sep=f"\n{'':12}")
    if any(findings.values()):
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
