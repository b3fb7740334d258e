"""Measures several hosts of web processes with one domain controller, one database and one Redis.

On one machine more hosts do not answer more requests, so the processor time per request counts: web processes' time is
distributed over the hosts, that of the domain controller, Redis and PostgreSQL is not. This shows on a small machine
how many hosts these can serve. The growth of the tables is measured, too.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle

import psycopg

from bench.client import Client, expect, on_each
from bench.reads import paths_of
from bench.report import print_head, print_row
from bench.servers import Domain, Gateway, running_web
from bench.turns import Way, take_turns

_HOSTS = (1, 2, 4)
_CONNECTIONS = 16
"""In total, distributed over the hosts."""
_SETTLED_AFTER = 1.5
"""How long it takes until reads are recorded."""
_PARTS = ("web", "worker", "domain controller", "redis", "database", "clients")
_TABLES = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""

Connection = tuple[Client, str]
"""A client's connection, with the account that it changes."""


def print_hosts(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    """Measure reads, then changes of one attribute each, through 1, 2 and 4 hosts; the first is the gateway's own.

    The gateway needs PostgreSQL.
    """
    reads, changes = (64, 32) if quick else (1600, 240)
    paths = cycle(paths_of(domain.find_people(50)))
    accounts = [f"/api/ad/users/{item}" for item in domain.add_users(domain.add_unit("Hosts"), _CONNECTIONS)]

    def read(connection: Connection, _: int) -> None:
        expect(connection[0].send("GET", next(paths)))

    def change(connection: Connection, number: int) -> None:
        client, account = connection
        client.call("PATCH", account, {"replace": {"title": f"Title {time.time_ns()} {number}"}})

    print_head("Web hosts", "way", "in a second", *_PARTS)
    grown: dict[str, dict[str, float]] = {}
    for count in _HOSTS:
        with _running(gateway, count) as hosts:
            connections = [(Client(hosts[number % count]), account) for number, account in enumerate(accounts)]
            for way, send, requests in (("reads", read, reads), ("changes", change, changes)):
                work = Way(partial(on_each, connections, requests // _CONNECTIONS, send))
                rate, used, grown[way] = _measure(domain, hosts, requests, work)
                print_row(count, way, f"{rate:.0f}", *(f"{used[part]:.2f}" for part in _PARTS))
    print_head("Table", "way", "octets of one request")
    for way, tables in grown.items():
        for table, size in sorted(tables.items(), key=lambda item: -item[1]):
            if size >= 1:
                print_row(table, way, f"{size:.0f}")


@contextmanager
def _running(gateway: Gateway, count: int) -> Iterator[list[Gateway]]:
    """Run `count` hosts, each with its own web processes and data directory."""
    with ExitStack() as stack:
        hosts = [gateway]
        for number in range(1, count):
            url, process = stack.enter_context(running_web(gateway))
            hosts.append(replace(gateway, base_url=url, processes={f"web{number}": process}))
        yield hosts


def _measure(
    domain: Domain, hosts: Sequence[Gateway], requests: int, work: Way
) -> tuple[float, dict[str, float], dict[str, float]]:
    """Return requests in a second, and for each request processor milliseconds by part and octets by table.

    The octets are those of indexes and dead rows, too. Clients and tables have two rounds, the first of which counts
    for nothing else: it opens connections and fills caches.
    """
    roots = domain.processes | {part: root for host in hosts for part, root in host.processes.items()}
    with psycopg.connect(hosts[0].live.environment["DATABASE_URL"], autocommit=True) as database:
        sizes: dict[str, int] = dict(database.execute(_TABLES).fetchall())
        own = sum(os.times()[:2])
        sample = take_turns({"": work}, {"": roots}, rounds=1, settle=_SETTLED_AFTER)[""]
        used = defaultdict(float, clients=(sum(os.times()[:2]) - own) * 1000 / (2 * requests))
        grown = {table: (size - sizes.get(table, 0)) / (2 * requests) for table, size in database.execute(_TABLES)}
    for part, seconds in sample.processor.items():
        used["web" if part.startswith("web") else part] += seconds * 1000 / requests
    return requests / sample.median, used, grown
