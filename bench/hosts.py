"""Measures several hosts of web processes with one domain controller, one database and one Redis.

On one machine more hosts do not answer more requests, so the processor time per request counts: web processes' time is
distributed over the hosts, that of the domain controller, Redis and PostgreSQL is not. This shows on a small machine
how many hosts these can serve. The growth of the tables is measured, too.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psycopg

from bench.client import Client, expect, in_threads
from bench.reads import path_of
from bench.servers import Domain, Gateway, running_web
from bench.usage import processor_seconds

HOSTS = (1, 2, 4)
CONNECTIONS = 16
"""In total, distributed over the hosts."""
_SETTLED_AFTER = 1.5
"""How long it takes until reads are recorded."""
_TABLES = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""

Send = Callable[[Client, int, int], None]
"""Sends a request: by client, number of its connection, and number of the request."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The result of a number of hosts: requests per second, and processor milliseconds per request by part."""

    hosts: int
    way: str
    rate: float
    processor: dict[str, float]
    grown: dict[str, float]
    """Bytes per request by table, including indexes and dead rows."""


def measure_hosts(domain: Domain, gateway: Gateway, *, reads: int, changes: int) -> Iterator[Shared]:
    """Measure reads, then changes of one attribute each, through 1, 2 and 4 hosts; the first is the gateway's own."""
    paths = [path_of(item) for item in domain.find_people(min(50, reads))]
    accounts = [f"/api/ad/users/{item}" for item in domain.add_users(domain.add_unit("Hosts"), CONNECTIONS)]

    def read(client: Client, connection: int, number: int) -> None:
        expect(client.send("GET", paths[(connection + number) % len(paths)]))

    def change(client: Client, connection: int, number: int) -> None:
        client.call("PATCH", accounts[connection], {"replace": {"title": f"Title {time.time_ns()} {number}"}})

    for count in HOSTS:
        with _running(gateway, count) as hosts:
            clients = [Client(hosts[number % count]) for number in range(CONNECTIONS)]
            for way, send, requests in (("reads", read, reads), ("changes", change, changes)):
                _send_all(clients, send, CONNECTIONS * 4)  # warm-up: opens connections and fills caches
                yield _measure(domain, hosts, way, partial(_send_all, clients, send, requests))


@contextmanager
def _running(gateway: Gateway, count: int) -> Iterator[list[Gateway]]:
    """Run `count` hosts, each with its own web processes and data directory."""
    with ExitStack() as stack:
        hosts = [gateway]
        for number in range(1, count):
            folder = Path(gateway.live.environment["GATEWAY_DATA_DIR"]) / f"host{number}"
            url, process = stack.enter_context(running_web(gateway, folder))
            hosts.append(replace(gateway, base_url=url, processes={f"web{number}": process}))
        yield hosts


def _measure(domain: Domain, hosts: Sequence[Gateway], way: str, work: Callable[[], int]) -> Shared:
    processes = {**domain.processes, **{part: root for host in hosts for part, root in host.processes.items()}}
    with psycopg.connect(hosts[0].live.environment["DATABASE_URL"], autocommit=True) as database:
        sizes: dict[str, int] = dict(database.execute(_TABLES).fetchall())
        before, own = processor_seconds(processes), sum(os.times()[:2])
        began = time.perf_counter()
        sent = work()
        seconds = time.perf_counter() - began
        own = sum(os.times()[:2]) - own
        time.sleep(_SETTLED_AFTER)
        after = processor_seconds(processes)
        grown = {table: (size - sizes.get(table, 0)) / sent for table, size in database.execute(_TABLES).fetchall()}
    used: dict[str, float] = {"clients": own / sent * 1000}
    for part in processes:
        name = "web" if part.startswith("web") else part
        used[name] = used.get(name, 0.0) + (after[part] - before[part]) / sent * 1000
    return Shared(len(hosts), way, sent / seconds, used, {table: size for table, size in grown.items() if size >= 1})


def _send_all(clients: Sequence[Client], send: Send, requests: int) -> int:
    each = max(1, requests // len(clients))

    def send_each(client: Client, connection: int) -> None:
        for number in range(each):
            send(client, connection, number)

    in_threads([partial(send_each, client, connection) for connection, client in enumerate(clients)])
    return each * len(clients)
