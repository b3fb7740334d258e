"""Measures single reads of one key while another key sends requests without a pause."""

import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import cycle
from urllib.parse import quote

import ldap
from ldap.filter import escape_filter_chars

from bench.client import Client, expect, on_each
from bench.reads import paths_of
from bench.report import milliseconds, print_head, print_row, target_of
from bench.servers import Domain, Gateway
from core.configuration_sections import Configuration
from lab.waiting import wait_until

_FLOODERS = 8
_READERS = 4
"""Enough connections to use every web process' connections to the directory."""
_DRY_RUNNERS = 3 * Configuration().Web.Threads
_MEMBERS = 60
_GROUPS = 10
_FLOOD_TARGET = 1.0
"""Seconds within which every read must be answered during a flood."""
_REFUSED_PAUSE = 0.05
"""How long a refused sender waits, much less than `Retry-After` says."""
_IN_CHAIN = "1.2.840.113556.1.4.1941"
Request = tuple[str, str, bytes]
"""Method, path and body."""


def print_flood(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    """Measure reads beside a flood of the costliest searches that filters allow, with more accounts in the domain."""
    reads, accounts = (20, 20) if quick else (4000, 3000)
    domain.add_users(domain.add_unit("Flood"), accounts)
    searches = [("GET", f"/api/ad/users?pageSize=1000&filter={quote(each)}", b"") for each in _costly_filters(domain)]
    name = "beside a flood of another key's searches"
    flood = _flood(gateway, searches, _FLOODERS)
    _print_reads(domain, gateway, name, flood, reads=reads, connections=_READERS, target=_FLOOD_TARGET)


def print_fairness(domain: Domain, gateway: Gateway, *, quick: bool) -> None:
    """Measure reads behind the costliest dry runs: large membership batches on more connections than threads."""
    reads, memberships = (20, 5) if quick else (400, 140)
    dry_run = ("POST", "/api/ad/groups/batch/update?dryRun=true", _memberships(domain, memberships))
    name = f"behind {_DRY_RUNNERS} dry runs of {memberships} × {_MEMBERS} names of another key"
    _print_reads(domain, gateway, name, _flood(gateway, [dry_run], _DRY_RUNNERS), reads=reads)


def _print_reads(
    domain: Domain,
    gateway: Gateway,
    name: str,
    flood: AbstractContextManager[Counter[int]],
    *,
    reads: int,
    connections: int = 1,
    target: float | None = None,
) -> None:
    """Print the times of one key's reads alone and during the flood, and what the other key's requests got."""
    paths = cycle(paths_of(domain.find_people(50)))
    clients = [Client(gateway) for _ in range(connections)]

    def times_of_reads() -> list[float]:
        times: list[float] = []

        def read(client: Client, _: int) -> None:
            start = time.perf_counter()
            expect(client.send("GET", next(paths)))
            times.append(time.perf_counter() - start)

        on_each(clients, reads // connections, read)
        return times

    times_of_reads()  # warm-up: opens the connections to the directory
    measured = {"alone": times_of_reads()}
    with flood as answers:
        measured[name] = times_of_reads()
        statuses = ", ".join(f"{count} × {status}" for status, count in sorted(answers.items()))
    print_head("One key's reads", "median", "99th percentile", "worst", "target of the worst (s)")
    for way, times in measured.items():
        percentile_99 = statistics.quantiles(times, n=100, method="inclusive")[-1]
        figures = map(milliseconds, (statistics.median(times), percentile_99, max(times)))
        print_row(way, *figures, target_of(max(times), target))
    print(f"\nThe other key's requests were answered with {statuses}.")


def _costly_filters(domain: Domain) -> list[str]:
    """Filters as costly as `directory/queries/searches/filters.py` lets pass, which find nothing.

    They use the limits for filters (`Searches` in the configuration): 3 chains and 100 comparisons.
    """
    groups = ("Domain Admins", "Domain Controllers", "Schema Admins")
    chains = "".join(f"(memberOf:{_IN_CHAIN}:=CN={name},CN=Users,{domain.base_dn})" for name in groups)
    # For objects that exist: for others the first comparison decides.
    people = domain.bind().search_s(f"OU=Staff,{domain.base_dn}", ldap.SCOPE_SUBTREE, "(manager=*)", ["1.1"])
    names = "".join(f"(secretary={escape_filter_chars(dn)})" for dn, _ in people[:16])
    parts = "".join(f"(name=*nothing{number}*)" for number in range(50))
    return [f"(|{each})" for each in (chains, names, parts)]


def _memberships(domain: Domain, count: int) -> bytes:
    """The body of a batch that adds the same members, by name, to several groups."""
    unit = domain.add_unit("Fairness")
    domain.add_users(unit, _MEMBERS)
    members = domain.children_of(unit)
    ids = [str(domain.directory.add_group(parent=unit)) for _ in range(_GROUPS)]
    items = [{"id": ids[number % _GROUPS], "add": {"member": members}} for number in range(count)]
    return json.dumps({"items": items}).encode()


@contextmanager
def _flood(gateway: Gateway, requests: Sequence[Request], senders: int) -> Iterator[Counter[int]]:
    """Send another key's requests without a pause unless refused; yield the counts of their statuses."""
    answers: Counter[int] = Counter()
    ended = threading.Event()

    def send(first: int) -> None:
        client = Client(gateway, f"X-API-Key: {gateway.api_keys[1]}")
        for method, path, body in cycle([*requests[first:], *requests[:first]]):
            if ended.is_set():
                return
            status = client.send(method, path, body).status
            answers[status] += 1
            if status == 429:
                ended.wait(_REFUSED_PAUSE)

    with ThreadPoolExecutor(senders) as pool:
        for number in range(senders):
            pool.submit(send, number % len(requests))
        try:
            wait_until(lambda: answers, 600, "a flood was not answered")  # then the others are under way, too
            yield answers
        finally:
            ended.set()
