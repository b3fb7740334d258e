"""The servers of a campaign on one host: a domain behind a proxy, Redis, a database, web and worker, all supervised.

`kinds` breaks them while `load` runs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.domain import Domain, running_domain
from lab.gateway import LiveGateway, Stores, gateway_settings, running_stores
from lab.proxy import FaultyProxy
from lab.samba.controller import PROCESS_PER_CONNECTION
from lab.services import supervise_in_background

OPERATION_SECONDS = 6
"""Shorter than the longest pause of the domain controller, so that some answers are lost."""

SETTINGS = {
    "GATEWAY_LOG_LEVEL": "INFO",
    "Directory__OperationSeconds": str(OPERATION_SECONDS),
    "Runs__WaitSeconds": "10",
}


class Servers(LiveGateway):
    """Everything that runs during a campaign."""

    def __init__(self, folder: Path, domain: Domain, proxy: FaultyProxy, stores: Stores) -> None:
        self.database_url = stores.database_url
        settings = gateway_settings(folder, database_url=self.database_url, redis_url=stores.redis.url)
        super().__init__(folder, settings | SETTINGS)
        self.domains = [domain]
        self.proxy = proxy
        self.stores = stores
        self.directory_urls = [proxy.url]
        self.watched = [stores.redis, *self.services]
        """The services that are supervised."""

    def start(self) -> None:
        """Start web and worker, wait for them, and supervise all servers from now on."""
        super().start()
        supervise_in_background(self.watched)


@contextmanager
def running_servers(folder: Path, *, database: str) -> Iterator[Servers]:
    """Start domain, proxy, Redis and database; the caller starts web and worker, once there are keys."""
    with ExitStack() as stack:
        domain = stack.enter_context(running_domain(folder / "domain", model=PROCESS_PER_CONNECTION))
        proxy = FaultyProxy(domain.controller.address, 636)
        stack.callback(proxy.close)
        servers = Servers(folder, domain, proxy, stack.enter_context(running_stores(folder, database=database)))
        stack.callback(servers.stop)
        servers.manage("migrate", "-v0")
        yield servers
