"""One key asks for the dearest that there is, on three times as many connections as there are threads; others go on."""

import threading
import time
from typing import Any

import pytest

from core.configuration_sections import Configuration
from lab.directory import Directory
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.support.cast import make_connection, make_integration

READS = 20
THREADS = Configuration().Web.Threads

Asked = tuple[str, Any]
"""Path and body."""


@pytest.fixture
def dear(directory: Directory, organizational_unit: str) -> dict[str, Asked]:
    """The dearest request of each kind."""
    users = [directory.add_user(parent=organizational_unit) for _ in range(40)]
    groups = [directory.add_group(parent=organizational_unit) for _ in range(5)]
    members = {"member": [directory.text(user, "distinguishedName") for user in users]}
    items = [{"id": str(groups[number % len(groups)]), "add": members} for number in range(8)]
    titles = [{"id": str(users[number % 40]), "replace": {"title": str(number)}} for number in range(100)]
    return {
        "members": ("/api/ad/groups/batch/update?dryRun=true", {"items": items}),
        "update": ("/api/ad/users/batch/update?dryRun=true", {"items": titles}),
    }


@pytest.mark.parametrize("kind", ["members", "update"])
def test_another_key_does_not_wait_for_the_requests_of_one(
    transactional_db: None,
    domain: Domain,
    live_gateway: LiveGateway,
    dear: dict[str, Asked],
    directory: Directory,
    organizational_unit: str,
    kind: str,
) -> None:
    connection = make_connection(domain)
    greedy, other = make_integration(connection), make_integration(connection)
    reader = directory.add_user(parent=organizational_unit)
    path, body = dear[kind]
    ended = threading.Event()
    answered: list[int] = []

    def flood() -> None:
        while not ended.is_set():
            status, _, _ = live_gateway.request("POST", path, body=body, headers={"X-API-Key": greedy.value})
            answered.append(status)

    def read() -> None:
        status, _, _ = live_gateway.request("GET", f"/api/ad/users/{reader}", headers={"X-API-Key": other.value})
        assert status == 200

    threads = [threading.Thread(target=flood) for _ in range(3 * THREADS)]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + 300
        while not answered:  # all of its threads are at work
            assert time.monotonic() < deadline
            time.sleep(0.01)
        before = len(answered)
        for _ in range(READS):
            read()
        # Behind the waiting requests of the other key, which are twice its threads, each read would wait for many.
        assert len(answered) - before < 2 * READS
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert set(answered) == {200}


def test_one_credential_streams_two_lists_at_once(
    transactional_db: None, domain: Domain, live_gateway: LiveGateway
) -> None:
    key = make_integration(make_connection(domain))
    wanted = {"X-API-Key": key.value, "Accept": "application/x-ndjson"}
    statuses: list[int] = []

    def ask() -> None:
        statuses.append(live_gateway.request("GET", "/api/ad/users", headers=wanted)[0])

    threads = [threading.Thread(target=ask) for _ in range(2 * THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 200 in statuses
    assert set(statuses) <= {200, 429}
