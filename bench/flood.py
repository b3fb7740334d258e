"""Single reads beside a flood of the costliest searches that a filter may ask for, by another key.

The filters are as costly as `directory/queries/searches/filter_cost.py` lets pass, and find nothing: in-chain terms,
distinguished names and parts of substrings, one after another on each connection, without a pause unless the gateway
asks for one.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from urllib.parse import quote

import ldap
from ldap.filter import escape_filter_chars

from bench.client import Client, expect, in_threads
from bench.domain import Domain
from bench.gateway import Gateway
from bench.reads import path_of

TARGET = 1.0
"""Seconds in which every read is answered."""
FLOODERS = 8
READERS = 4
"""Connections, so that those of every web process to the directory are read over."""
_REFUSED_PAUSE = 0.05
"""Seconds that a refused flooder waits: much less than `Retry-After` asks for."""
_PATIENCE = 600.0
"""Seconds: what floods waits for itself."""
_IN_CHAIN = "1.2.840.113556.1.4.1941"
Request = tuple[str, str, bytes]
"""Method, path and body."""
_GROUPS = ("Domain Admins", "Domain Controllers", "Schema Admins")


@dataclass(frozen=True, slots=True)
class Flooded:
    """Seconds of each read, how long they were without the flood, and how its searches were answered."""

    alone: list[float]
    beside: list[float]
    answers: dict[int, int]


def costliest_filters(domain: Domain) -> list[str]:
    """The most of each that a filter may have (`Searches` in the configuration): 3 chains, 100 comparisons."""
    chains = "".join(f"(memberOf:{_IN_CHAIN}:=CN={name},CN=Users,{domain.base_dn})" for name in _GROUPS)
    # Of objects that exist: others are told from the first comparison.
    people = domain.connect().search_s(f"OU=Staff,{domain.base_dn}", ldap.SCOPE_SUBTREE, "(manager=*)", ["1.1"])
    names = "".join(f"(secretary={escape_filter_chars(dn)})" for dn, _ in people[:16])
    parts = "".join(f"(name=*nothing{number}*)" for number in range(50))
    return [f"(|{chains})", f"(|{names})", f"(|{parts})"]


def measure_flood(domain: Domain, gateway: Gateway, *, reads: int, accounts: int) -> Flooded:
    """Read people with one key, alone and beside another key's flood, in a domain with so many more accounts."""
    domain.add_users(domain.add_unit("Flood"), accounts)
    paths = cycle([path_of(item) for item in domain.find_people(min(50, reads))])
    clients = [Client(gateway) for _ in range(READERS)]

    def read_all(count: int) -> list[float]:
        times: list[float] = []

        def read(client: Client) -> None:
            for _ in range(count // READERS):
                start = time.perf_counter()
                expect(client.send("GET", next(paths)))
                times.append(time.perf_counter() - start)

        in_threads([partial(read, client) for client in clients])
        return times

    read_all(min(reads, 100))  # opens the connections to the directory
    alone = read_all(reads)
    searches = [("GET", f"/api/ad/users?pageSize=1000&filter={quote(each)}", b"") for each in costliest_filters(domain)]
    with flood(gateway, searches, connections=FLOODERS) as answers:
        return Flooded(alone, read_all(reads), dict(answers))


@contextmanager
def flood(gateway: Gateway, requests: Sequence[Request], *, connections: int) -> Iterator[Counter[int]]:
    """Send another key's requests without end; how often which status was answered."""
    answers: Counter[int] = Counter()
    ended = threading.Event()

    def flooder(number: int) -> Callable[[], None]:
        def send() -> None:
            client = Client(gateway, api_key=gateway.api_keys[1], patience=_PATIENCE)
            first = number % len(requests)
            for method, path, body in cycle([*requests[first:], *requests[:first]]):
                if ended.is_set():
                    return
                status = client.send(method, path, body).status
                answers[status] += 1
                if status == 429:
                    ended.wait(_REFUSED_PAUSE)

        return send

    threads = [threading.Thread(target=flooder(number)) for number in range(connections)]
    for thread in threads:
        thread.start()
    try:
        while not answers:  # the first is answered: the flood is there
            time.sleep(0.01)
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()
