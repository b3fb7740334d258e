"""Measures single reads of one key while another key sends requests without a pause."""

import json
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
from core.configuration_sections import Configuration

FLOODERS = 8
READERS = 4
"""Enough connections to use every web process' connections to the directory."""
DRY_RUNNERS = 3 * Configuration().Web.Threads
MEMBERS = 60
_GROUPS = 10
_REFUSED_PAUSE = 0.05
"""How long a refused sender waits, much less than `Retry-After` says."""
_PATIENCE = 600.0
"""Long, since floods delay themselves."""
_IN_CHAIN = "1.2.840.113556.1.4.1941"
Request = tuple[str, str, bytes]
"""Method, path and body."""


class BystanderResult(NamedTuple):
    """Seconds of each read alone and beside the other key's requests, and the statuses that these got."""

    alone: list[float]
    beside: list[float]
    answers: dict[int, int]


def measure_flood(domain: Domain, gateway: Gateway, *, reads: int, accounts: int) -> BystanderResult:
    """Measure reads beside a flood of the costliest searches that filters allow, with more accounts in the domain."""
    domain.add_users(domain.add_unit("Flood"), accounts)
    searches = [("GET", f"/api/ad/users?pageSize=1000&filter={quote(each)}", b"") for each in costliest_filters(domain)]
    return _measure(domain, gateway, searches, senders=FLOODERS, readers=READERS, reads=reads)


def measure_fairness(domain: Domain, gateway: Gateway, *, reads: int, memberships: int) -> BystanderResult:
    """Measure reads behind the costliest dry runs: large membership batches on more connections than threads."""
    dry_run = ("POST", "/api/ad/groups/batch/update?dryRun=true", _memberships(domain, memberships))
    return _measure(domain, gateway, [dry_run], senders=DRY_RUNNERS, readers=1, reads=reads)


def costliest_filters(domain: Domain) -> list[str]:
    """Filters as costly as `directory/queries/searches/filters.py` lets pass, which find nothing.

    They use the limits for filters (`Searches` in the configuration): 3 chains and 100 comparisons.
    """
    groups = ("Domain Admins", "Domain Controllers", "Schema Admins")
    chains = "".join(f"(memberOf:{_IN_CHAIN}:=CN={name},CN=Users,{domain.base_dn})" for name in groups)
    # For objects that exist: for others the first comparison decides.
    people = domain.bind().search_s(f"OU=Staff,{domain.base_dn}", ldap.SCOPE_SUBTREE, "(manager=*)", ["1.1"])
    names = "".join(f"(secretary={escape_filter_chars(dn)})" for dn, _ in people[:16])
    parts = "".join(f"(name=*nothing{number}*)" for number in range(50))
    return [f"(|{chains})", f"(|{names})", f"(|{parts})"]


def _memberships(domain: Domain, count: int) -> bytes:
    """The body of a batch that adds the same members, by name, to several groups."""
    connection, unit = domain.bind(), domain.add_unit("Fairness")
    domain.add_users(unit, MEMBERS)
    members = [dn for dn, _ in connection.search_s(unit, ldap.SCOPE_ONELEVEL, attrlist=["1.1"])]
    ids = [str(domain.guid_of(domain.add_group(unit))) for _ in range(_GROUPS)]
    items = [{"id": ids[number % _GROUPS], "add": {"member": members}} for number in range(count)]
    return json.dumps({"items": items}).encode()


def _measure(
    domain: Domain, gateway: Gateway, requests: Sequence[Request], *, senders: int, readers: int, reads: int
) -> BystanderResult:
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

    read_all()  # warm-up: opens the connections to the directory
    alone = read_all()
    with _flood(gateway, requests, senders) as answers:
        return BystanderResult(alone, read_all(), dict(answers))


@contextmanager
def _flood(gateway: Gateway, requests: Sequence[Request], senders: int) -> Iterator[Counter[int]]:
    """Send another key's requests without a pause unless refused; yield the counts of their statuses."""
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
        while not answers:  # once the first is answered, the others are under way
            time.sleep(0.01)
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()
