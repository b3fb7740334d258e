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


def _primary(cluster: Cluster) -> Sequence[Machine]:
    return cluster.primary()[:1]


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


def _kind(name: str, victim: str, weight: int, seconds: tuple[float, float], strike: Callable[..., None]) -> Kind:
    return Kind(name, victim, weight, seconds, strike, target="hosts not back in time")


_AT_ONCE, _SHORT, _LONG, _LONGER, _LONGEST = (0, 0), (0.5, 3.0), (3.0, 12.0), (3.0, 15.0), (3.0, 20.0)
_GATEWAY: dict[str, Callable[[Cluster], Sequence[Machine]]] = {
    "web": lambda cluster: cluster.webs,
    "worker": lambda cluster: cluster.workers,
}


def _controllers(cluster: Cluster) -> Sequence[Machine]:
    return cluster.directory


def _balancer(cluster: Cluster) -> Sequence[Machine]:
    return [cluster.balancer]


def _database_primary(cluster: Cluster) -> Sequence[Any]:
    return [cluster.database.primary]


def _database_standby(cluster: Cluster) -> Sequence[Any]:
    return [cluster.database.standby]


KINDS = (
    *(
        _kind(f"{name} host{how}", name, weight, seconds, _one_of(hosts, strike))
        for name, hosts in _GATEWAY.items()
        for how, weight, seconds, strike in (
            (" crashed", 4, _SHORT, _crash),
            (" without power", 2, _LONG, _lose_power),
            (" restarted", 2, _SHORT, _restart),
            (" unplugged", 3, _LONG, _unplug),
            ("'s link slow", 1, _LONG, _slow),
            ("'s disk full", 1, _LONG, _fill),
        )
    ),
    _kind("domain controller crashed", "directory", 5, (1, 20), _one_of(_controllers, _crash)),
    _kind("domain controller restarted", "directory", 2, _SHORT, _one_of(_controllers, _restart)),
    _kind("domain controller paused", "directory", 3, _LONG, _one_of(_controllers, _pause)),
    # One of them, which may be the one that nobody writes to, or both.
    _kind(BUSY, "directory", 2, (60, 60),
          _one_of(lambda cluster: [cluster.domains[:1], cluster.domains[1:], cluster.domains], lasting(_busy))),
    _kind("domain controller unplugged", "directory", 4, _LONGEST, _one_of(_controllers, _unplug)),
    _kind("domain controller's link slow", "directory", 2, _LONG, _one_of(_controllers, _slow)),
    _kind("a gateway host apart from a domain controller", "directory", 5, _LONGEST,
          _cut_off_from(lambda cluster: [machine.host.address for machine in cluster.directory])),
    _kind("domain controllers apart from one another", "replication", 4, _LONGEST,
          lasting(lambda cluster: cluster.directory[0].host.cut_off_from(cluster.directory[1].host.address))),
    _kind("PostgreSQL crashed, its standby promoted", "database", 4, _AT_ONCE,
          lambda cluster, _: cluster.database.fail_over()),
    _kind("PostgreSQL's standby crashed", "database", 2, _AT_ONCE,
          lambda cluster, _: cluster.database.restart_standby()),
    _kind("PostgreSQL's host unplugged", "database", 2, _LONG, _one_of(_database_primary, _unplug)),
    _kind("PostgreSQL's standby unplugged", "database", 2, _LONG, _one_of(_database_standby, _unplug)),
    _kind("PostgreSQL's link slow", "database", 1, _LONG, _one_of(_database_primary, _slow)),
    _kind("PostgreSQL's disk full", "database", 1, _SHORT, lasting(_full_database_disk)),
    _kind("PostgreSQL connections killed", "database", 2, _AT_ONCE, kill_database_connections),
    _kind("a gateway host apart from PostgreSQL", "database", 3, _LONG, _cut_off_from(lambda _: [database.ADDRESS])),
    *(
        _kind(name, "redis", weight, seconds, _of_redis(strike))
        for name, weight, seconds, strike in (
            ("Redis' primary killed", 3, (0.5, 12.0), _one_of(_primary, _crash)),
            ("Redis' primary restarted", 1, _SHORT, _one_of(_primary, _restart)),
            ("Redis' primary hangs", 2, _LONGER, _one_of(_primary, _pause)),
            ("Redis' primary unplugged", 2, _LONGER, _one_of(_primary, _unplug)),
            ("Redis' primary without power", 1, _LONGER, _primary_without_power),
            ("Redis' primary apart from its replicas", 1, _LONGER, lasting(_isolated_primary)),
            ("Redis' primary's link slow", 1, _LONG, _one_of(_primary, _slow)),
            ("Redis' primary's disk full", 1, _LONG, _one_of(_primary, _fill)),
            ("Redis' replica killed", 1, _SHORT, _one_of(_replicas, _crash)),
            ("Redis' replica unplugged", 1, _LONG, _one_of(_replicas, _unplug)),
            ("Redis FLUSHALL", 1, _AT_ONCE, lambda cluster, _: cluster.redis.flush()),
            ("a Sentinel killed", 2, (0.5, 12.0), _one_of(lambda cluster: cluster.sentinels, _crash)),
            ("a gateway host apart from Redis' primary", 2, _LONG,
             _cut_off_from(lambda cluster: [cluster.primary()[0].host.address])),
        )
    ),
    _kind("load balancer crashed", "balancer", 1, _SHORT, _one_of(_balancer, _crash)),
    _kind("load balancer unplugged", "balancer", 1, _LONG, _one_of(_balancer, _unplug)),
)  # fmt: skip
