"""Processes of the release before beside those of this tree, on the tables of this tree: what a rolling upgrade is.

`make upgrade-test` runs it, and then the whole: from the tables of the release before and back, under more load.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from faults.checks import CHECKS
from faults.client import working
from faults.handover import Handover, Reader
from faults.scene import Scene
from faults.upgrade import logged_errors, make_host, run_round, unanswered, wait_for_end
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.http import LoadBalancer
from lab.releases import NoHistory, Release, previous_release
from tests.support.cast import PASSWORD, make_connection, make_integration, make_person
from tests.support.database import live_database_url
from tests.support.environment import DATABASE


@pytest.fixture
def before() -> Release:
    """The release before this tree."""
    try:
        return previous_release()
    except NoHistory as error:
        pytest.skip(f"the release before cannot be had: {error}")


@pytest.fixture
def old(before: Release, transactional_db: None, redis_server: object, tmp_path: Path) -> Iterator[LiveGateway]:
    """Its web server and worker, on this tree's database and broker."""
    host = make_host("old", before, tmp_path, {**os.environ, "DATABASE_URL": live_database_url()})
    yield host
    host.stop()


def test_the_release_before_is_unpacked(before: Release) -> None:
    """Also by the oldest Python that the gateway runs with."""
    assert (before.tree / "manage.py").is_file()


@pytest.mark.long
@pytest.mark.skipif("GATEWAY_TEST_UPGRADE" not in os.environ, reason="`make upgrade-test` runs it")
@pytest.mark.skipif(DATABASE == "sqlite", reason="a single host is upgraded by a restart")
def test_the_release_before_works_beside_this_one(old: LiveGateway, live_gateway: LiveGateway, domain: Domain) -> None:
    connection = make_connection(domain)
    keys = [make_integration(connection).value for _ in range(2)]
    accounts = {
        "keys": keys,
        "careful": [_make_careful(connection) for _ in range(2)],
        "approver": {"username": make_person(may=["approvals.decide_change"]).username, "password": PASSWORD},
    }
    balancer = LoadBalancer()
    new = live_gateway.base_url
    with closing(Scene([domain], live_database_url(), accounts, balancer, seed=1, clients=1)) as scene:
        handover = Handover(balancer, accounts, scene.spare[0])
        reader = Reader(balancer, keys[-1])
        old.start()
        balancer.use(old.base_url)
        finish_old = handover.begin("old")
        balancer.use(old.base_url, new)
        with working(*scene.workers, reader):
            run_round(scene)
            balancer.use(new)
            finish_old()
            finish_new = handover.begin("new")
            balancer.use(old.base_url)
            live_gateway.worker.stop()
            finish_new()
            wait_for_end(scene)
        story = scene.story()
    found = {name: list(check(story)) for name, check in CHECKS.items()}
    found["not answered"] = [*unanswered(story), *reader.findings]
    found["not finished"] = handover.findings
    found["errors"] = list(logged_errors(old))
    assert {name: findings for name, findings in found.items() if findings} == {}
    assert len(reader.answers) > 10
    old.manage("verify_operations_log")


def _make_careful(connection: DirectoryConnection) -> str:
    return make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE).value
