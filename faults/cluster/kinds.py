"""What happens to hosts, links and disks. Two faults of one victim never overlap; see `faults.kinds`."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

import psycopg

from faults.cluster.site import Cluster, Machine, wait_for
from faults.kinds import BUSY, Fault, Kind, NotBack
from lab.cluster import database
from lab.cluster.controllers import ReplicatingController
from lab.cluster.network import Host, filled
from lab.domain import Domain
from lab.samba.database import busy_with_a_write

_One = TypeVar("_One")
_SLOW = "256kbit"
_TARGET = "hosts not back in time"

Some = Callable[[Cluster], Sequence[Machine]]


def _choose(some: Sequence[_One], fault: Fault) -> _One:
    return some[int(fault.choice * len(some))]


def _during(change: AbstractContextManager[object], fault: Fault) -> None:
    with change:
        time.sleep(fault.seconds)


def _back(machine: Machine, fault: Fault) -> None:
    """Wait for its service as for one that was lost."""
    try:
        machine.service.wait_until_ready(fault.patience)
    except RuntimeError as error:
        raise NotBack(f"{machine.host.name} was not back within {fault.patience:g} s") from error


def _crashed(some: Some) -> Callable[[Cluster, Fault], None]:
    """Every process of the host is killed, and starts some seconds later."""

    def strike(cluster: Cluster, fault: Fault) -> None:
        machine = _choose(some(cluster), fault)
        machine.service.crash(fault.seconds)
        _back(machine, fault)

    return strike


def _lost_power(some: Some) -> Callable[[Cluster, Fault], None]:
    """As by a crash, but nobody is told: no connection is closed."""

    def strike(cluster: Cluster, fault: Fault) -> None:
        machine = _choose(some(cluster), fault)
        with machine.host.unplugged():
            machine.service.crash(fault.seconds)
        _back(machine, fault)

    return strike


def _restarted(some: Some) -> Callable[[Cluster, Fault], None]:
    def strike(cluster: Cluster, fault: Fault) -> None:
        machine = _choose(some(cluster), fault)
        machine.service.restart(fault.seconds)
        _back(machine, fault)

    return strike


def _unplugged(some: Some) -> Callable[[Cluster, Fault], None]:
    return lambda cluster, fault: _during(_choose(some(cluster), fault).host.unplugged(), fault)


def _slowed(some: Some) -> Callable[[Cluster, Fault], None]:
    return lambda cluster, fault: _during(_choose(some(cluster), fault).host.slowed(_SLOW), fault)


def _filled(some: Some) -> Callable[[Cluster, Fault], None]:
    return lambda cluster, fault: _during(filled(_choose(some(cluster), fault).disk), fault)


def _redis_whole(cluster: Cluster, fault: Fault) -> None:
    """Wait until Redis could bear the next fault: one takes writes and two follow it."""
    try:
        wait_for(cluster.redis.is_whole, "", fault.patience)
    except RuntimeError as error:
        raise NotBack(f"Redis had no primary with two replicas within {fault.patience:g} s") from error


def _of_redis(strike: Callable[[Cluster, Fault], None]) -> Callable[[Cluster, Fault], None]:
    """A fault of Redis, which is over when Redis is whole again, with whichever primary."""

    def strike_and_wait(cluster: Cluster, fault: Fault) -> None:
        strike(cluster, fault)
        _redis_whole(cluster, fault)

    return strike_and_wait


def _primary(cluster: Cluster) -> Sequence[Machine]:
    return cluster.primary()[:1]


def _replicas(cluster: Cluster) -> Sequence[Machine]:
    primary, _ = cluster.primary()
    return [each for each in cluster.redis_servers if each is not primary]


def _sentinels(cluster: Cluster) -> Sequence[Machine]:
    return cluster.sentinels


def _primary_hangs(cluster: Cluster, fault: Fault) -> None:
    with cluster.primary()[0].service.paused():
        time.sleep(fault.seconds)


def _primary_without_power(cluster: Cluster, fault: Fault) -> None:
    server, sentinel = cluster.primary()
    with server.host.unplugged():
        sentinel.service.crash(0)
        server.service.crash(fault.seconds)


def _primary_apart(cluster: Cluster, fault: Fault) -> None:
    """It reaches the gateway, and neither replica nor other Sentinel: it must take no more writes."""
    primary = cluster.primary()[0].host
    with ExitStack() as cuts:
        for host in cluster.redis.hosts:
            if host is not primary:
                cuts.enter_context(primary.apart_from(host.address))
        time.sleep(fault.seconds)


def _flush_redis(cluster: Cluster, _: Fault) -> None:
    cluster.redis.flush()


def _controller_crashed(cluster: Cluster, fault: Fault) -> None:
    controller = _choose(cluster.controllers, fault)
    os.killpg(controller.process_id, signal.SIGKILL)
    controller.stop()
    time.sleep(fault.seconds)
    controller.start(prepare=False, timeout=fault.patience)


def _controller_restarted(cluster: Cluster, fault: Fault) -> None:
    controller = _choose(cluster.controllers, fault)
    controller.stop()
    time.sleep(fault.seconds)
    controller.start(prepare=False, timeout=fault.patience)


def _controller_paused(cluster: Cluster, fault: Fault) -> None:
    controller = _choose(cluster.controllers, fault)
    controller.pause()
    try:
        time.sleep(fault.seconds)
    finally:
        controller.resume()


def _controllers_busy(cluster: Cluster, fault: Fault) -> None:
    """One or the other, which may be the one that nobody writes to, or both."""
    first, second = cluster.controllers
    with ExitStack() as writes:
        for controller in _choose(((first,), (second,), (first, second)), fault):
            writes.enter_context(busy_with_a_write(Domain(controller)))
        time.sleep(fault.seconds)


def _controller_unplugged(cluster: Cluster, fault: Fault) -> None:
    _during(_choose(cluster.controllers, fault).host.unplugged(), fault)


def _controller_slowed(cluster: Cluster, fault: Fault) -> None:
    _during(_choose(cluster.controllers, fault).host.slowed(_SLOW), fault)


def _controllers_apart(cluster: Cluster, fault: Fault) -> None:
    first, second = cluster.controllers
    _during(first.host.apart_from(second.address), fault)


def _pair(cluster: Cluster, fault: Fault) -> tuple[Host, ReplicatingController]:
    pairs = [(host, controller) for host in cluster.gateways for controller in cluster.controllers]
    return _choose(pairs, fault)


def _one_from_a_controller(cluster: Cluster, fault: Fault) -> None:
    host, controller = _pair(cluster, fault)
    _during(host.apart_from(controller.address), fault)


def _one_from_the_database(cluster: Cluster, fault: Fault) -> None:
    _during(_choose(cluster.gateways, fault).apart_from(database.ADDRESS), fault)


def _one_from_redis(cluster: Cluster, fault: Fault) -> None:
    _during(_choose(cluster.gateways, fault).apart_from(cluster.primary()[0].host.address), fault)


def _leader_replaced(cluster: Cluster, _: Fault) -> None:
    cluster.database.replace_leader()


def _follower_restarted(cluster: Cluster, _: Fault) -> None:
    cluster.database.restart_follower()


def _leader_unplugged(cluster: Cluster, fault: Fault) -> None:
    _during(cluster.database.leader.host.unplugged(), fault)


def _follower_unplugged(cluster: Cluster, fault: Fault) -> None:
    _during(cluster.database.follower.host.unplugged(), fault)


def _leader_slowed(cluster: Cluster, fault: Fault) -> None:
    _during(cluster.database.leader.host.slowed(_SLOW), fault)


def _leader_filled(cluster: Cluster, fault: Fault) -> None:
    """PostgreSQL ends when it cannot write ahead; it is started when there is room."""
    _during(filled(cluster.database.leader.folder), fault)
    cluster.database.bring_back()


def _connections_killed(_: Cluster, __: Fault) -> None:
    with psycopg.connect(database.URL, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def _webs(cluster: Cluster) -> Sequence[Machine]:
    return cluster.webs


def _workers(cluster: Cluster) -> Sequence[Machine]:
    return cluster.workers


def _balancer(cluster: Cluster) -> Sequence[Machine]:
    return (cluster.balancer,)


def _kind(name: str, victim: str, weight: int, seconds: tuple[float, float], strike: Callable[..., None]) -> Kind:
    return Kind(name, victim, weight, seconds, strike, target=_TARGET)


_SHORT, _LONG = (0.5, 3.0), (3.0, 12.0)

KINDS = (
    _kind("web host crashed", "web", 4, _SHORT, _crashed(_webs)),
    _kind("web host without power", "web", 2, _LONG, _lost_power(_webs)),
    _kind("web host restarted", "web", 2, _SHORT, _restarted(_webs)),
    _kind("web host unplugged", "web", 3, _LONG, _unplugged(_webs)),
    _kind("web host's link slow", "web", 1, _LONG, _slowed(_webs)),
    _kind("web host's disk full", "web", 1, _LONG, _filled(_webs)),
    _kind("worker host crashed", "worker", 4, _SHORT, _crashed(_workers)),
    _kind("worker host without power", "worker", 2, _LONG, _lost_power(_workers)),
    _kind("worker host restarted", "worker", 2, _SHORT, _restarted(_workers)),
    _kind("worker host unplugged", "worker", 3, _LONG, _unplugged(_workers)),
    _kind("worker host's link slow", "worker", 1, _LONG, _slowed(_workers)),
    _kind("worker host's disk full", "worker", 1, _LONG, _filled(_workers)),
    _kind("domain controller crashed", "directory", 5, (1, 20), _controller_crashed),
    _kind("domain controller restarted", "directory", 2, _SHORT, _controller_restarted),
    _kind("domain controller paused", "directory", 3, _LONG, _controller_paused),
    _kind(BUSY, "directory", 2, (60, 60), _controllers_busy),
    _kind("domain controller unplugged", "directory", 4, (3, 20), _controller_unplugged),
    _kind("domain controller's link slow", "directory", 2, _LONG, _controller_slowed),
    _kind("a gateway host apart from a domain controller", "directory", 5, (3, 20), _one_from_a_controller),
    _kind("domain controllers apart from one another", "replication", 4, (3, 20), _controllers_apart),
    _kind("PostgreSQL crashed, its standby promoted", "database", 4, (0, 0), _leader_replaced),
    _kind("PostgreSQL's standby crashed", "database", 2, (0, 0), _follower_restarted),
    _kind("PostgreSQL's host unplugged", "database", 2, _LONG, _leader_unplugged),
    _kind("PostgreSQL's standby unplugged", "database", 2, _LONG, _follower_unplugged),
    _kind("PostgreSQL's link slow", "database", 1, _LONG, _leader_slowed),
    _kind("PostgreSQL's disk full", "database", 1, _SHORT, _leader_filled),
    _kind("PostgreSQL connections killed", "database", 2, (0, 0), _connections_killed),
    _kind("a gateway host apart from PostgreSQL", "database", 3, _LONG, _one_from_the_database),
    _kind("Redis' primary killed", "redis", 3, (0.5, 12.0), _of_redis(_crashed(_primary))),
    _kind("Redis' primary restarted", "redis", 1, _SHORT, _of_redis(_restarted(_primary))),
    _kind("Redis' primary hangs", "redis", 2, (3.0, 15.0), _of_redis(_primary_hangs)),
    _kind("Redis' primary unplugged", "redis", 2, (3.0, 15.0), _of_redis(_unplugged(_primary))),
    _kind("Redis' primary without power", "redis", 1, (3.0, 15.0), _of_redis(_primary_without_power)),
    _kind("Redis' primary apart from its replicas", "redis", 1, (3.0, 15.0), _of_redis(_primary_apart)),
    _kind("Redis' primary's link slow", "redis", 1, _LONG, _of_redis(_slowed(_primary))),
    _kind("Redis' primary's disk full", "redis", 1, _LONG, _of_redis(_filled(_primary))),
    _kind("Redis' replica killed", "redis", 1, _SHORT, _of_redis(_crashed(_replicas))),
    _kind("Redis' replica unplugged", "redis", 1, _LONG, _of_redis(_unplugged(_replicas))),
    _kind("Redis FLUSHALL", "redis", 1, (0, 0), _of_redis(_flush_redis)),
    _kind("a Sentinel killed", "redis", 2, (0.5, 12.0), _of_redis(_crashed(_sentinels))),
    _kind("a gateway host apart from Redis' primary", "redis", 2, _LONG, _of_redis(_one_from_redis)),
    _kind("load balancer crashed", "balancer", 1, _SHORT, _crashed(_balancer)),
    _kind("load balancer unplugged", "balancer", 1, _LONG, _unplugged(_balancer)),
)
