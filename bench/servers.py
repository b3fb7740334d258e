"""The servers to measure: a domain with people, and gateways for it, each with its own database and Redis.

A gateway may be that of an earlier commit. A process of that commit provides its commands, so that one harness can
measure commits whose modules have other names.
"""

import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import ldap

from lab.accounts.making import make_accounts
from lab.commands import PROJECT, web_command
from lab.company import FILL_DOMAIN
from lab.directory import Connection, Directory, open_connection, random_name
from lab.domain import Domain as AnyDomain
from lab.domain import running_domain as running_empty_domain
from lab.gateway import LiveGateway, gateway_settings, running_stores
from lab.processes import run
from lab.releases import THIS_TREE, Release
from lab.samba.controller import SYSTEM_PYTHON, DomainController
from lab.services import Service, free_port, is_port_free

DATABASES = ("sqlite", "postgresql")
_STAFF_IN_GROUPS = "(&(objectCategory=person)(memberOf=*)(!(userAccountControl:1.2.840.113556.1.4.803:=2)))"
# PostgreSQL's defaults, instead of those of the tests, which may lose data.
_DURABLE = (
    *("fsync=on", "full_page_writes=on", "shared_buffers=128MB"),
    "max_connections=200",  # each thread of a web process has one
)


class Domain(AnyDomain):
    """The domain for raw measurements and for the gateways."""

    @cached_property
    def directory(self) -> Directory:
        """A connection of the administrator."""
        return self.connect()

    @property
    def processes(self) -> dict[str, int]:
        """The domain controller's first process."""
        return {"domain controller": self.controller.pid}

    def bind(self) -> Connection:
        """A raw connection with the gateway's bind account."""
        connection = open_connection(self.url, str(self.ca_file))
        connection.simple_bind_s(self.bind_dn, self.bind_password)
        return connection

    def find_people(self, count: int) -> list[uuid.UUID]:
        """The objectGUIDs of enabled accounts with groups and passwords."""
        found = self.directory.search(_STAFF_IN_GROUPS, "objectGUID", base=f"OU=Staff,{self.base_dn}")
        return [uuid.UUID(bytes_le=values["objectGUID"][0]) for values in found.values()][:count]

    def add_unit(self, name: str) -> str:
        """Add an organizational unit with this name prefix; return its distinguished name."""
        return self.directory.add_unit(random_name(name))

    def add_users(
        self, unit: str, count: int, attributes_of: Callable[[int], dict[str, str]] = lambda _: {}
    ) -> list[uuid.UUID]:
        """Scratch accounts without a password, disabled; their objectGUIDs."""
        values = {"displayName": "Bench", "department": "Measures"}
        return [
            self.directory.add_user(parent=unit, enabled=False, **(values | attributes_of(number)))
            for number in range(count)
        ]

    def children_of(self, unit: str) -> list[str]:
        """The distinguished names of what is directly in a unit."""
        return list(self.directory.search("(objectClass=*)", "1.1", base=unit, scope=ldap.SCOPE_ONELEVEL))


@contextmanager
def running_domain(*, people: int = 0, durable: bool = True, filler: Path = FILL_DOMAIN) -> Iterator[Domain]:
    """Start a domain in a temporary directory; nothing is left behind.

    It has `people` of the demonstration's company, with groups and password settings objects, or those that another
    `filler` writes. If no writes to the directory are measured, it need not be `durable`, and is filled faster.
    """

    def fill(controller: DomainController) -> None:
        if people:
            controller.prepare()
            run([SYSTEM_PYTHON, filler, controller.directory, str(people)], directory=PROJECT)

    with (
        tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder,
        running_empty_domain(Path(folder) / "domain", durable=durable, fill=fill) as domain,
    ):
        yield Domain(domain.controller)


@dataclass(frozen=True)
class Gateway:
    """A running gateway, named as in the table.

    `api_keys` may do everything; the first one is used for measurements. `processes` has the PIDs of its first
    processes, from which all others descend. The administrator signs in to the console.
    """

    name: str
    database: str
    base_url: str
    api_keys: tuple[str, ...]
    processes: dict[str, int]
    administrator: dict[str, str]
    live: LiveGateway

    @property
    def api_key(self) -> str:
        return self.api_keys[0]


@contextmanager
def running_gateway(
    domain: Domain, name: str = "gateway", *, database: str = "sqlite", release: Release = THIS_TREE, records: int = 0
) -> Iterator[Gateway]:
    """Start Redis, the database, web and Celery workers in a temporary directory; nothing is left behind.

    The log has so many `records`, of which PostgreSQL has no statistics.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-bench-")))
        folder.chmod(0o711)  # PostgreSQL runs as another user, and its socket lies below
        stores = stack.enter_context(
            running_stores(folder, database=database, options=(*_DURABLE, *(["autovacuum=off"] if records else [])))
        )
        settings = gateway_settings(folder, database_url=stores.database_url, redis_url=stores.redis.url)
        if release.has_agents:
            settings["Agents__Enabled"] = "true"
        live = LiveGateway(folder / "gateway", settings, release=release)
        stack.callback(live.stop)
        live.manage("migrate", "-v0")
        accounts = make_accounts(live, domain, urls=[domain.url], clients=2)
        if records:
            live.run([sys.executable, "-m", "bench.growth.fill_log", str(records)])
        live.start()
        processes = {"redis": stores.redis.pid, "web": live.web.pid, "worker": live.worker.pid}
        if stores.postgres is not None:
            processes["database"] = stores.postgres.pid
        keys = tuple(accounts["keys"])
        yield Gateway(name, database, live.base_url, keys, processes, accounts.get("administrator", {}), live)


@contextmanager
def running_web(
    gateway: Gateway, application: str = "gateway.asgi:application", **environment: str
) -> Iterator[tuple[str, int]]:
    """One more web server over the stores of a gateway, with a data directory of its own: its URL and process id."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        web = Service(
            "web",
            web_command(host="127.0.0.1", port=port, application=application),
            is_ready=lambda: not is_port_free("127.0.0.1", port),
            log_file=Path(folder) / "web.log",
            environment={**gateway.live.environment, "GATEWAY_DATA_DIR": folder, **environment},
        )
        web.start_and_wait()
        try:
            yield f"http://127.0.0.1:{port}", web.pid
        finally:
            web.stop()
