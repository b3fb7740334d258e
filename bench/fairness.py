"""Single reads of one key behind the dearest dry runs of another: large batches of memberships, on more connections
than there are threads.
"""

import json
import statistics
import time
from dataclasses import dataclass
from itertools import cycle

import ldap

from bench.client import Client, expect
from bench.domain import Domain
from bench.flood import flood
from bench.gateway import Gateway
from bench.reads import path_of
from core.configuration import Configuration

CONNECTIONS = 3 * Configuration().Web.Threads
MEMBERS = 60
_GROUPS = 10
_GLOBAL_SECURITY_GROUP = b"-2147483646"


@dataclass(frozen=True, slots=True)
class Waited:
    """Seconds of one read."""

    median: float
    late: float
    """The 99th percentile."""


@dataclass(frozen=True, slots=True)
class Fairness:
    """A read alone and behind the dry runs, and how these were answered."""

    alone: Waited
    behind: Waited
    answers: dict[int, int]


def measure_fairness(domain: Domain, gateway: Gateway, *, reads: int, memberships: int) -> Fairness:
    """Read people with one key, one after another, alone and behind another key's dry runs of so many memberships."""
    paths = cycle([path_of(item) for item in domain.find_people(min(50, reads))])
    client = Client(gateway)

    def read_all() -> Waited:
        times = []
        for _ in range(reads):
            start = time.perf_counter()
            expect(client.send("GET", next(paths)))
            times.append(time.perf_counter() - start)
        return Waited(statistics.median(times), statistics.quantiles(times, n=100)[-1])

    read_all()  # opens the connections to the directory
    alone = read_all()
    dry_run = ("POST", "/api/ad/groups/batch/update?dryRun=true", _memberships(domain, memberships))
    with flood(gateway, [dry_run], connections=CONNECTIONS) as answers:
        return Fairness(alone, read_all(), dict(answers))


def _memberships(domain: Domain, count: int) -> bytes:
    """The body of a batch that puts the same members into groups, by their names."""
    connection, unit = domain.connect(), domain.add_unit("Fairness")
    domain.add_users(unit, MEMBERS)
    members = [dn for dn, _ in connection.search_s(unit, ldap.SCOPE_ONELEVEL, attrlist=["1.1"])]
    groups = [f"CN=Group {number},{unit}" for number in range(_GROUPS)]
    for group in groups:
        connection.add_s(group, [("objectClass", [b"group"]), ("groupType", [_GLOBAL_SECURITY_GROUP])])
    ids = [str(domain.guid_of(group)) for group in groups]
    items = [{"id": ids[number % _GROUPS], "add": {"member": members}} for number in range(count)]
    return json.dumps({"items": items}).encode()
