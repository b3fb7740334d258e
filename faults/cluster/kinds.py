"""Faults of hosts, links and disks. Two faults of one victim never overlap; see `faults.kinds`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from faults.kinds import BUSY, Fault, Kind, Strike, kill_database_connections, lasting, wait_until_back
from lab.cluster import database
from lab.cluster.cluster import Cluster, Machine
from lab.cluster.network import Host, full_disk
from lab.domain import Domain
from lab.samba.database import busy_with_a_write

_One = TypeVar("_One")
_SLOW = "256kbit"


def _one_of(some: Callable[[Cluster], Sequence[_One]], strike: Callable[[_One, Fault], None]) -> Strike:
    """Strike one of several, by the fault's choice."""

    def strike_one(cluster: Cluster, fault: Fault) -> None:
        found = some(cluster)
        strike(found[int(fault.choice * len(found))], fault)

    return strike_one


def _crash(machine: Machine, fault: Fault) -> None:
    """Kill all processes of a machine, and start them some seconds later."""
    machine.service.crash(fault.seconds)
    wait_until_back(machine.service.is_ready, machine.host.name, fault)


def _lose_power(machine: Machine, fault: Fault) -> None:
    """Crash a machine without closing its connections."""
    with machine.host.unplugged():
        machine.service.crash(fault.seconds)
    wait_until_back(machine.service.is_ready, machine.host.name, fault)


def _restart(machine: Machine, fault: Fault) -> None:
    machine.service.restart(fault.seconds)
    wait_until_back(machine.service.is_ready, machine.host.name, fault)


_pause = lasting(lambda machine: machine.service.paused())
_unplug = lasting(lambda machine: machine.host.unplugged())
_slow = lasting(lambda machine: machine.host.slowed(_SLOW))
_fill = lasting(lambda machine: full_disk(machine.disk))


def _of_redis(strike: Strike) -> Strike:
    """A fault of Redis, which is over when a primary has two replicas again."""

    def strike_and_wait(cluster: Cluster, fault: Fault) -> None:
        strike(cluster, fault)
        wait_until_back(cluster.redis.is_complete, "Redis with a primary and two replicas", fault)

    return strike_and_wait


def _replicas(cluster: Cluster) -> Sequence[Machine]:
    primary, _ = cluster.primary()
    return [each for each in cluster.redis_servers if each is not primary]


def _primary_without_power(cluster: Cluster, fault: Fault) -> None:
    server, sentinel = cluster.primary()
    with server.host.unplugged():
        sentinel.service.crash(0)
        server.service.crash(fault.seconds)


@contextmanager
def _isolated_primary(cluster: Cluster) -> Iterator[None]:
    """Cut the primary off from replicas and other Sentinels, not from the gateway: it must refuse writes."""
    primary = cluster.primary()[0].host
    with ExitStack() as cuts:
        for host in cluster.redis.hosts:
            if host is not primary:
                cuts.enter_context(primary.cut_off_from(host.address))
        yield


@contextmanager
def _busy(domains: Sequence[Domain]) -> Iterator[None]:
    with ExitStack() as writes:
        for domain in domains:
            writes.enter_context(busy_with_a_write(domain))
        yield


def _cut_off_from(addresses: Callable[[Cluster], Sequence[str]]) -> Strike:
    """Cut one of the gateway's hosts off from one of these addresses."""

    def pairs(cluster: Cluster) -> Sequence[tuple[Host, str]]:
        return [(host, address) for host in cluster.gateways for address in addresses(cluster)]

    return _one_of(pairs, lasting(lambda pair: pair[0].cut_off_from(pair[1])))


@contextmanager
def _full_database_disk(cluster: Cluster) -> Iterator[None]:
    """Fill the primary's disk. PostgreSQL ends when it cannot write its WAL, and is restarted afterwards."""
    with full_disk(cluster.database.primary.directory):
        yield
    cluster.database.restart_ended()


_AT_ONCE, _SHORT, _LONG, _LONGER = (0, 0), (0.5, 3.0), (3.0, 12.0), (3.0, 20.0)
_STRIKES: dict[str, tuple[tuple[float, float], Callable[[Machine, Fault], None]]] = {
    "crashed": ((0.5, 15.0), _crash),
    "without power": (_LONG, _lose_power),
    "restarted": (_SHORT, _restart),
    "paused": (_LONG, _pause),
    "unplugged": (_LONGER, _unplug),
    "with a slow link": (_LONG, _slow),
    "with a full disk": (_LONG, _fill),
}
"""What happens to one machine, with the limits of its duration."""
_OF_THE_GATEWAY = {
    "crashed": 4, "without power": 2, "restarted": 2, "unplugged": 3, "with a slow link": 1, "with a full disk": 1,
}  # fmt: skip
_MACHINES: Sequence[tuple[str, str, Callable[[Cluster], Sequence[Any]], dict[str, int]]] = (
    ("web", "web host", lambda cluster: cluster.webs, _OF_THE_GATEWAY),
    ("worker", "worker host", lambda cluster: cluster.workers, _OF_THE_GATEWAY),
    ("balancer", "load balancer", lambda cluster: [cluster.balancer], {"crashed": 1, "unplugged": 1}),
    ("directory", "domain controller", lambda cluster: cluster.directory,
     {"crashed": 5, "restarted": 2, "paused": 3, "unplugged": 4, "with a slow link": 2}),
    ("database", "PostgreSQL", lambda cluster: [cluster.database.primary], {"unplugged": 2, "with a slow link": 1}),
    ("database", "PostgreSQL's standby", lambda cluster: [cluster.database.standby], {"unplugged": 2}),
    ("redis", "Redis' primary", lambda cluster: cluster.primary()[:1],
     {"crashed": 3, "restarted": 1, "paused": 2, "unplugged": 2, "with a slow link": 1, "with a full disk": 1}),
    ("redis", "Redis' replica", _replicas, {"crashed": 1, "unplugged": 1}),
    ("redis", "a Sentinel", lambda cluster: cluster.sentinels, {"crashed": 2}),
)  # fmt: skip
"""The victim, the name and the machines of each kind of machine, one of which is struck, and the weights of faults."""
_Row = tuple[str, int, tuple[float, float], Strike]
_OTHERS: dict[str, Sequence[_Row]] = {
    "directory": (
        # One of them, which may be the one that nobody writes to, or both.
        (BUSY, 2, (60, 60),
         _one_of(lambda cluster: [cluster.domains[:1], cluster.domains[1:], cluster.domains], lasting(_busy))),
        ("a gateway host apart from a domain controller", 5, _LONGER,
         _cut_off_from(lambda cluster: [machine.host.address for machine in cluster.directory])),
    ),
    "replication": (
        ("domain controllers apart from one another", 4, _LONGER,
         lasting(lambda cluster: cluster.directory[0].host.cut_off_from(cluster.directory[1].host.address))),
    ),
    "database": (
        ("PostgreSQL crashed, its standby promoted", 4, _AT_ONCE, lambda cluster, _: cluster.database.fail_over()),
        ("PostgreSQL's standby crashed", 2, _AT_ONCE, lambda cluster, _: cluster.database.restart_standby()),
        ("PostgreSQL's disk full", 1, _SHORT, lasting(_full_database_disk)),
        ("PostgreSQL connections killed", 2, _AT_ONCE, kill_database_connections),
        ("a gateway host apart from PostgreSQL", 3, _LONG, _cut_off_from(lambda _: [database.ADDRESS])),
    ),
    "redis": (
        ("Redis' primary without power", 1, _LONG, _primary_without_power),
        ("Redis' primary apart from its replicas", 1, _LONGER, lasting(_isolated_primary)),
        ("Redis FLUSHALL", 1, _AT_ONCE, lambda cluster, _: cluster.redis.flush()),
        ("a gateway host apart from Redis' primary", 2, _LONG,
         _cut_off_from(lambda cluster: [cluster.primary()[0].host.address])),
    ),
}  # fmt: skip


def _kinds() -> Iterator[Kind]:
    rows = [(victim, row) for victim, others in _OTHERS.items() for row in others]
    for victim, machine, machines, weights in _MACHINES:
        for happens, weight in weights.items():
            seconds, strike = _STRIKES[happens]
            rows.append((victim, (f"{machine} {happens}", weight, seconds, _one_of(machines, strike))))
    for victim, (name, weight, seconds, strike) in rows:
        whole = _of_redis(strike) if victim == "redis" else strike
        yield Kind(name, victim, weight, seconds, whole, target="hosts not back in time")


KINDS = tuple(_kinds())
