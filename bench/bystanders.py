"""Single reads of one key beside what another key sends without a pause, and how both were answered."""

import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import NamedTuple
from urllib.parse import quote

import ldap
from ldap.filter import escape_filter_chars

from bench.client import Client, expect, in_threads
from bench.reads import path_of
from bench.servers import Domain, Gateway
from core.configuration import Configuration

FLOODERS = 8
READERS = 4
"""Connections, so that those of every web process to the directory are read over."""
DRY_RUNNERS = 3 * Configuration().Web.Threads
MEMBERS = 60
_GROUPS = 10
_REFUSED_PAUSE = 0.05
"""Seconds that a refused sender waits: much less than `Retry-After` asks for."""
_PATIENCE = 600.0
"""Seconds: what floods waits for itself."""
_IN_CHAIN = "1.2.840.113556.1.4.1941"
Request = tuple[str, str, bytes]
"""Method, path and body."""


class Beside(NamedTuple):
    """Seconds of each read alone and beside the other key's requests, and how often these got which status."""

    alone: list[float]
    beside: list[float]
    answers: dict[int, int]


def measure_flood(domain: Domain, gateway: Gateway, *, reads: int, accounts: int) -> Beside:
    """Beside a flood of the costliest searches that a filter may ask for, in a domain with so many more accounts."""
    domain.add_users(domain.add_unit("Flood"), accounts)
    searches = [("GET", f"/api/ad/users?pageSize=1000&filter={quote(each)}", b"") for each in costliest_filters(domain)]
    return _measure(domain, gateway, searches, senders=FLOODERS, readers=READERS, reads=reads)


def measure_fairness(domain: Domain, gateway: Gateway, *, reads: int, memberships: int) -> Beside:
    """Behind the dearest dry runs: large batches of memberships, on more connections than there are threads."""
    dry_run = ("POST", "/api/ad/groups/batch/update?dryRun=true", _memberships(domain, memberships))
    return _measure(domain, gateway, [dry_run], senders=DRY_RUNNERS, readers=1, reads=reads)


def costliest_filters(domain: Domain) -> list[str]:
    """Filters as costly as `directory/queries/searches/filter_cost.py` lets pass, which find nothing.

    They have the most of each that a filter may have (`Searches` in the configuration): 3 chains, 100 comparisons.
    """
    groups = ("Domain Admins", "Domain Controllers", "Schema Admins")
    chains = "".join(f"(memberOf:{_IN_CHAIN}:=CN={name},CN=Users,{domain.base_dn})" for name in groups)
    # Of objects that exist: others are told from the first comparison.
    people = domain.bind().search_s(f"OU=Staff,{domain.base_dn}", ldap.SCOPE_SUBTREE, "(manager=*)", ["1.1"])
    names = "".join(f"(secretary={escape_filter_chars(dn)})" for dn, _ in people[:16])
    parts = "".join(f"(name=*nothing{number}*)" for number in range(50))
    return [f"(|{chains})", f"(|{names})", f"(|{parts})"]


def _memberships(domain: Domain, count: int) -> bytes:
    """The body of a batch that puts the same members into groups, by their names."""
    connection, unit = domain.bind(), domain.add_unit("Fairness")
    domain.add_users(unit, MEMBERS)
    members = [dn for dn, _ in connection.search_s(unit, ldap.SCOPE_ONELEVEL, attrlist=["1.1"])]
    ids = [str(domain.guid_of(domain.add_group(unit))) for _ in range(_GROUPS)]
    items = [{"id": ids[number % _GROUPS], "add": {"member": members}} for number in range(count)]
    return json.dumps({"items": items}).encode()


def _measure(
    domain: Domain, gateway: Gateway, requests: Sequence[Request], *, senders: int, readers: int, reads: int
) -> Beside:
    paths = cycle([path_of(item) for item in domain.find_people(min(50, reads))])
    clients = [Client(gateway) for _ in range(readers)]

    def read_all() -> list[float]:
        times: list[float] = []

        def read(client: Client) -> None:
            for _ in range(reads // readers):
                start = time.perf_counter()
                expect(client.send("GET", next(paths)))
                times.append(time.perf_counter() - start)

        in_threads([partial(read, client) for client in clients])
        return times

    read_all()  # opens the connections to the directory
    alone = read_all()
    with _sent_without_end(gateway, requests, senders) as answers:
        return Beside(alone, read_all(), dict(answers))


@contextmanager
def _sent_without_end(gateway: Gateway, requests: Sequence[Request], senders: int) -> Iterator[Counter[int]]:
    """Send another key's requests without a pause unless the gateway asks for one; how often which status came."""
    answers: Counter[int] = Counter()
    ended = threading.Event()

    def send(number: int) -> None:
        client = Client(gateway, api_key=gateway.api_keys[1], patience=_PATIENCE)
        first = number % len(requests)
        for method, path, body in cycle([*requests[first:], *requests[:first]]):
            if ended.is_set():
                return
            status = client.send(method, path, body).status
            answers[status] += 1
            if status == 429:
                ended.wait(_REFUSED_PAUSE)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(senders)]
    for thread in threads:
        thread.start()
    try:
        while not answers:  # the first is answered: the others are on their way
            time.sleep(0.01)
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def late(times: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(times, n=100)[-1]
