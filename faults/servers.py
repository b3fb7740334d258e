"""One host of a campaign: a domain behind a proxy, Redis, a database, web and worker; who dies is started again.

How they are broken is in `kinds`; what a client does meanwhile in `load`.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.domain import Domain, running_domain
from lab.gateway import LiveGateway, Stores, running_stores, settings_of_gateway
from lab.proxy import FaultyProxy
from lab.samba.controller import PROCESS_PER_CONNECTION
from lab.services import watch

OPERATION_SECONDS = 6
"""Shorter than the longest pause of the domain controller, so that some answers are given up for lost."""
SETTINGS = {
    "GATEWAY_LOG_LEVEL": "INFO",
    "Directory__OperationSeconds": str(OPERATION_SECONDS),
    "Runs__WaitSeconds": "10",
}


class Servers(LiveGateway):
    """Everything that runs during a campaign."""

    def __init__(self, place: Path, domain: Domain, proxy: FaultyProxy, stores: Stores) -> None:
        self.database_url = stores.database_url
        settings = settings_of_gateway(place, database_url=self.database_url, redis_url=stores.redis.url)
        super().__init__(place, settings | SETTINGS)
        self.domains = [domain]
        self.proxy = proxy
        self.stores = stores
        self._watched = (stores.redis, *self.services)
        self._ended = threading.Event()

    @property
    def directory_urls(self) -> Sequence[str]:
        """The domain controller behind the proxy."""
        return [self.proxy.url]

    def start(self) -> None:
        """Start web and worker, wait for them, and look after all from now on."""
        super().start()
        watch(self._watched, self._ended)

    def wait_until_ready(self) -> None:
        """Wait until the web server answers."""
        self.web.wait_until_ready()

    def ended_alone(self) -> list[str]:
        """The processes that ended although nobody had killed them."""
        return [each for service in self._watched for each in service.ended_alone]

    def stop(self) -> None:
        """End what was started here."""
        self._ended.set()
        super().stop()


@contextmanager
def running_servers(place: Path, *, database: str) -> Iterator[Servers]:
    """Start domain, proxy, Redis and database; web and worker are the caller's to start, once there are keys."""
    with ExitStack() as stack:
        domain = stack.enter_context(running_domain(place / "domain", model=PROCESS_PER_CONNECTION))
        proxy = FaultyProxy(domain.controller.address, 636)
        stack.callback(proxy.close)
        servers = Servers(place, domain, proxy, stack.enter_context(running_stores(place, database=database)))
        stack.callback(servers.stop)
        servers.manage("migrate", "-v0")
        yield servers
