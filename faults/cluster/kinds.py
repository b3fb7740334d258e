"""Faults of hosts, links and disks. Two faults of one victim never overlap; see `faults.kinds`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from faults.kinds import BUSY, Fault, Kind, Strike, kill_database_connections, lasting, restart, wait_until_back
from lab.cluster import database
from lab.cluster.cluster import Cluster, Machine
from lab.cluster.database import Server
from lab.cluster.network import Host, full_disk
from lab.samba.database import busy_with_a_write
from lab.waiting import wait_until

_One = TypeVar("_One")


def _one_of(some: Callable[[Cluster], Sequence[_One]], strike: Callable[[_One, Fault], None]) -> Strike:
    """Strike one of several, by the fault's choice."""

    def strike_one(cluster: Cluster, fault: Fault) -> None:
        found = some(cluster)
        strike(found[int(fault.choice * len(found))], fault)

    return strike_one


def _crash(machine: Machine, fault: Fault) -> None:
    """Kill all processes of a machine, and start them some seconds later."""
    machine.service.crash(fault.seconds)
    wait_until_back(machine.service, fault)


def _lose_power(machine: Machine, fault: Fault) -> None:
    """Crash a machine without closing its connections."""
    with machine.host.unplugged():
        machine.service.crash(fault.seconds)
    wait_until_back(machine.service, fault)


def _replicas(cluster: Cluster) -> Sequence[Machine]:
    primary, _ = cluster.primary()
    return [each for each in cluster.redis_servers if each is not primary]


def _primary_without_power(cluster: Cluster, fault: Fault) -> None:
    server, sentinel = cluster.primary()
    with server.host.unplugged():
        sentinel.service.crash(0)
        server.service.crash(fault.seconds)


@contextmanager
def _all_of(changes: Iterable[AbstractContextManager[object]]) -> Iterator[None]:
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


def _isolated_primary(cluster: Cluster) -> AbstractContextManager[None]:
    """Cut the primary off from replicas and other Sentinels, not from the gateway: it must refuse writes."""
    primary = cluster.primary()[0].host
    return _all_of(primary.cut_off_from(host.address) for host in cluster.redis.hosts if host is not primary)


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
_STRIKES: Mapping[str, tuple[tuple[float, float], Strike]] = {
    "crashed": ((0.5, 15.0), _crash),
    "without power": (_LONG, _lose_power),
    "restarted": (_SHORT, lambda machine, fault: restart(machine.service, fault)),
    "paused": (_LONG, lasting(lambda machine: machine.service.paused())),
    "unplugged": (_LONGER, lasting(lambda machine: machine.host.unplugged())),
    "with a slow link": (_LONG, lasting(lambda machine: machine.host.slowed("256kbit"))),
    "with a full disk": (_LONG, lasting(lambda machine: full_disk(machine.disk))),
}
"""What happens to one machine, with the limits of its duration."""
_OF_THE_GATEWAY = {
    "crashed": 4, "without power": 2, "restarted": 2, "unplugged": 3, "with a slow link": 1, "with a full disk": 1,
}  # fmt: skip
_MACHINES: Sequence[tuple[str, str, Callable[[Cluster], Sequence[Machine | Server]], Mapping[str, int]]] = (
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


def _kind(victim: str, name: str, weight: int, seconds: tuple[float, float], strike: Strike) -> Kind:
    """A kind of fault. One of Redis is over when a primary has two replicas again."""

    def strike_redis(cluster: Cluster, fault: Fault) -> None:
        strike(cluster, fault)
        wait_until(cluster.redis.is_complete, fault.patience, "Redis had no primary with two replicas in time")

    whole = strike_redis if victim == "redis" else strike
    return Kind(name, victim, weight, seconds, whole, "hosts not back in time")


CLUSTER_KINDS = (
    # One of them, which may be the one that nobody writes to, or both.
    _kind("directory", BUSY, 2, (60, 60),
          _one_of(lambda cluster: [cluster.domains[:1], cluster.domains[1:], cluster.domains],
                  lasting(lambda domains: _all_of(map(busy_with_a_write, domains))))),
    _kind("directory", "a gateway host apart from a domain controller", 5, _LONGER,
          _cut_off_from(lambda cluster: [machine.host.address for machine in cluster.directory])),
    _kind("replication", "domain controllers apart from one another", 4, _LONGER,
          lasting(lambda cluster: cluster.directory[0].host.cut_off_from(cluster.directory[1].host.address))),
    _kind("database", "PostgreSQL crashed, its standby promoted", 4, _AT_ONCE,
          lambda cluster, _: cluster.database.fail_over()),
    _kind("database", "PostgreSQL's standby crashed", 2, _AT_ONCE,
          lambda cluster, _: cluster.database.restart_standby()),
    _kind("database", "PostgreSQL's disk full", 1, _SHORT, lasting(_full_database_disk)),
    _kind("database", "PostgreSQL connections killed", 2, _AT_ONCE, kill_database_connections),
    _kind("database", "a gateway host apart from PostgreSQL", 3, _LONG, _cut_off_from(lambda _: [database.ADDRESS])),
    _kind("redis", "Redis' primary without power", 1, _LONG, _primary_without_power),
    _kind("redis", "Redis' primary apart from its replicas", 1, _LONGER, lasting(_isolated_primary)),
    _kind("redis", "Redis FLUSHALL", 1, _AT_ONCE, lambda cluster, _: cluster.redis.flush()),
    _kind("redis", "a gateway host apart from Redis' primary", 2, _LONG,
          _cut_off_from(lambda cluster: [cluster.primary()[0].host.address])),
    *(
        _kind(victim, f"{machine} {happens}", weight, _STRIKES[happens][0], _one_of(machines, _STRIKES[happens][1]))
        for victim, machine, machines, weights in _MACHINES
        for happens, weight in weights.items()
    ),
)  # fmt: skip
