"""Each operation there is, from one key on three times as many connections as there are threads, while the directory
answers nobody: another key is answered all the same.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core.call import Surface
from core.operation import Effect, Operation, operations
from lab.directory import Directory
from lab.domain import Domain
from lab.gateway import LiveGateway
from tests.audit.every_change import CHANGES, RUNS, World, attempt
from tests.contracts.test_confinement import QUERIES
from tests.support.cast import make_connection, make_integration
from tests.support.database import gateway_at

THREADS = 4
READS = 5
FILLING = 0.1
"""Seconds in which the connections reach the threads. Were they slower, the test would see less, and not fail."""

Asked = tuple[str, str, Any]
"""Method, path and body."""


class Requests(World):
    """One request of each operation, of which none changes anything."""

    def all(self) -> Iterator[tuple[str, Asked]]:
        for operation in operations(Surface.API):
            if operation.effect is Effect.READ and (read := self._read(operation)) is not None:
                yield operation.name, read
        for operation in CHANGES:
            method, path, body = attempt(operation, self).request
            yield operation.name, (method, f"{path}?dryRun=true", body)
        unit = self.directory.guid(self.unit)
        for name in RUNS:
            action = name.rpartition(".")[2].removesuffix("-accounts")
            path = f"/api/ad/organization-units/{unit}/accounts/{action}?dryRun=true"
            yield name, ("POST", path, {"kinds": ["user"]})

    def _read(self, operation: Operation) -> Asked | None:
        """None for what is not here: records, change requests and runs."""
        targets: dict[str, Callable[[], Any]] = {
            "groups": lambda: self.add("groups"),
            "organization-units": lambda: self.directory.guid(self.unit),
            "deleted-objects": self._deleted,
            "computers": lambda: self.add("computers"),
            "contacts": lambda: self.add("contacts"),
        }
        target = targets.get(operation.resource, lambda: self.add("users"))()
        path = f"/api/{operation.path.replace('{id}', str(target))}{QUERIES.get(operation.name, '')}"
        if operation.action == "read-by":
            path = path.replace("{identifier}/{value}", f"sid/{self.directory.sid(target)}")
        if path.endswith("/by-dn"):
            path += f"?dn={self.directory.dn(target)}"
        return ("GET", path, None) if self.integration.get(path).status == 200 else None

    def _deleted(self) -> Any:
        gone = self.add("users")
        self.directory.delete(gone)
        return gone


@pytest.fixture
def small_gateway(transactional_db: None, tmp_path: Path) -> Iterator[LiveGateway]:
    """A web server whose few threads few requests fill, and that waits for the directory longer than the test lasts.

    Its environment, like that of tests with a browser, would let Django open connections on the event loop.
    """
    settings = {"Web__Threads": str(THREADS), "Directory__OperationSeconds": "600", "DJANGO_ALLOW_ASYNC_UNSAFE": "1"}
    gateway = gateway_at(tmp_path / "gateway", settings)
    gateway.web.start_and_wait()
    yield gateway
    gateway.stop()


def test_no_operation_of_one_key_keeps_another_waiting(
    domain: Domain, small_gateway: LiveGateway, directory: Directory, organizational_unit: str
) -> None:
    connection = make_connection(domain)
    greedy, other = make_integration(connection), make_integration(connection)
    requests = dict(Requests(greedy, directory, organizational_unit).all())
    assert len(requests) > len(CHANGES) + len(RUNS) + 30

    def ask(asked: Asked) -> int:
        method, path, body = asked
        return small_gateway.request(method, path, body=body, headers={"X-API-Key": greedy.value})[0]

    with ThreadPoolExecutor(3 * THREADS) as connections:
        for name, asked in requests.items():
            domain.controller.pause()
            try:
                under_way = [connections.submit(ask, asked) for _ in range(3 * THREADS)]
                time.sleep(FILLING)
                for _ in range(READS):
                    status, _, told = small_gateway.request("GET", "/api/me", headers={"X-API-Key": other.value})
                    assert status == 200, (name, told)
            finally:
                domain.controller.resume()
            statuses = {each.result() for each in under_way}
            assert 200 in statuses, name
            assert statuses <= {200, 429, 503}, name
