"""What happens to hosts, links and disks. Two faults of one victim never overlap; see `faults.kinds`."""

import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

import psycopg

from faults.cluster import database
from faults.cluster.controllers import ReplicatingController
from faults.cluster.network import Host, filled
from faults.cluster.site import Cluster, Machine
from faults.kinds import Fault, Kind, NotBack

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


def _flush_redis(cluster: Cluster, _: Fault) -> None:
    with suppress(OSError), socket.create_connection((cluster.redis.host.address, 6379), timeout=2) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        connection.recv(64)


def _controller_crashed(cluster: Cluster, fault: Fault) -> None:
    controller = _choose(cluster.controllers, fault)
    os.killpg(controller.process_id, signal.SIGKILL)
    controller.stop()
    time.sleep(fault.seconds)
    controller.start(prepare=False)


def _controller_restarted(cluster: Cluster, fault: Fault) -> None:
    controller = _choose(cluster.controllers, fault)
    controller.stop()
    time.sleep(fault.seconds)
    controller.start(prepare=False)


def _controller_paused(cluster: Cluster, fault: Fault) -> None:
    controller = _choose(cluster.controllers, fault)
    controller.pause()
    try:
        time.sleep(fault.seconds)
    finally:
        controller.resume()


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
    _during(_choose(cluster.gateways, fault).apart_from(cluster.redis.host.address), fault)


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


def _redis(cluster: Cluster) -> Sequence[Machine]:
    return (cluster.redis,)


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
    _kind("Redis crashed", "redis", 2, _SHORT, _crashed(_redis)),
    _kind("Redis restarted", "redis", 2, _SHORT, _restarted(_redis)),
    _kind("Redis unplugged", "redis", 2, _LONG, _unplugged(_redis)),
    _kind("Redis' link slow", "redis", 1, _LONG, _slowed(_redis)),
    _kind("Redis' disk full", "redis", 1, _LONG, _filled(_redis)),
    _kind("Redis FLUSHALL", "redis", 1, (0, 0), _flush_redis),
    _kind("a gateway host apart from Redis", "redis", 2, _LONG, _one_from_redis),
    _kind("load balancer crashed", "balancer", 1, _SHORT, _crashed(_balancer)),
    _kind("load balancer unplugged", "balancer", 1, _LONG, _unplugged(_balancer)),
)
