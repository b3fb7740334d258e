"""The hosts of the cluster and what runs there: two of each kind, three of Redis, one load balancer."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gateway.server.commands import web_command, worker_command
from lab.clock import without_fake_clock
from lab.cluster import database
from lab.cluster.controllers import ReplicatingController, kerberos_configuration, make_domain
from lab.cluster.database import Pair, Server
from lab.cluster.network import Host, bind_over, clock_shift_environment, make_bridge, small_disk
from lab.cluster.redis_hosts import PORT, SENTINEL_PORT, RedisHosts, public_name
from lab.commands import PROJECT
from lab.domain import Domain
from lab.gateway import Commands, gateway_settings
from lab.http import is_healthy
from lab.releases import THIS_TREE
from lab.services import Service, supervise_in_background
from lab.waiting import wait_until

CLOCK_OFFSETS = {"web2": 180, "worker2": -150}
"""By how many seconds the clocks of some hosts are wrong; Kerberos tolerates at most five minutes."""

STICKY_SECONDS = 300
"""Longer than replication between the sites takes while faults keep separating them."""

_NUMBERS = {
    "dc1": 11, "dc2": 12, "db1": 21, "db2": 22, "redis1": 31, "redis2": 32, "redis3": 33,
    "web1": 41, "web2": 42, "worker1": 51, "worker2": 52, "balancer": 61,
}  # fmt: skip
"""The hosts, with the last number of their addresses."""

_WEB_PORT, _PORT = 8000, 8080
_DISK, _DATABASE_DISK = "16m", "480m"
_REDIS_SECONDS = 600.0


@dataclass
class Machine:
    """A host, a service that runs on it, and the disk that it writes to."""

    host: Host
    service: Service
    disk: Path


class Cluster(Commands):
    """The cluster, started in a folder, except for the gateway: it needs keys first, so `start` starts it."""

    release = THIS_TREE

    def __init__(self, folder: Path, settings: Mapping[str, str], stack: ExitStack) -> None:
        self._folder = folder
        make_bridge()
        self._hosts: dict[str, Host] = {}
        for name, number in _NUMBERS.items():
            self._hosts[name] = Host(name, number)
            self._hosts[name].start()
        self._name_hosts()
        self.controllers = self._start_controllers(stack)
        self.domains = [Domain(controller) for controller in self.controllers]
        self.database = self._start_database(stack)
        self.database_url = database.URL
        self.base_url = f"http://{self._hosts['balancer'].address}:{_PORT}"
        disks = {
            name: stack.enter_context(small_disk(folder / f"disk-{name}", _DISK))
            for name in _NUMBERS
            if not name.startswith(("dc", "db"))
        }
        self.redis = RedisHosts([self._hosts[name] for name in _NUMBERS if name.startswith("redis")])
        self.directory = [Machine(controller.host, controller, controller.directory) for controller in self.controllers]
        self.environment = gateway_settings(folder, database_url=self.database_url, redis_url="")
        self.environment |= {**settings, **self.redis.settings}
        self.environment["Directory__StickySeconds"] = str(STICKY_SECONDS)
        self.environment["ForwardedHeaders__KnownProxies"] = f'["{self._hosts["balancer"].address}"]'
        self.redis_servers = [self._redis_machine(host, disks) for host in self.redis.hosts]
        self.sentinels = [self._sentinel_machine(host, disks) for host in self.redis.hosts]
        web = web_command(host="0.0.0.0", port=_WEB_PORT, workers=1)  # noqa: S104 - in a namespace
        worker = worker_command("-W", "ignore:You're running the worker with superuser", concurrency=1)
        self.webs = [self._machine(name, web, disks, self._health_of(name)) for name in ("web1", "web2")]
        self.workers = [self._machine(name, worker, disks, None) for name in ("worker1", "worker2")]
        nginx = ["nginx", "-c", str(self._nginx_configuration(disks["balancer"])), "-g", "user root;"]
        self.balancer = self._machine("balancer", nginx, disks, lambda: is_healthy(self.base_url))
        self._redis_machines = [*self.redis_servers, *self.sentinels]
        self._gateway_machines = [*self.workers, *self.webs, self.balancer]
        self.watched = [machine.service for machine in (*self._redis_machines, *self._gateway_machines)]
        """The services that are supervised."""
        self.directory_urls = [controller.url for controller in self.controllers]

    @property
    def gateways(self) -> list[Host]:
        """The hosts of the gateway's web servers and workers."""
        return [machine.host for machine in (*self.webs, *self.workers)]

    def start(self) -> None:
        """Start the gateway and its balancer, and supervise all processes from now on."""
        for machine in self._gateway_machines:
            machine.service.start()
        for machine in self._gateway_machines:
            machine.service.wait_until_ready(600)
        supervise_in_background(self.watched)

    def start_redis(self) -> None:
        """Start the Redis servers and their Sentinels."""
        for machine in self._redis_machines:
            machine.service.start()
            machine.service.wait_until_ready()
        wait_until(self.redis.is_complete, _REDIS_SECONDS, "Redis has no primary with two replicas")

    def primary(self) -> tuple[Machine, Machine]:
        """Return Redis' primary and the Sentinel on its host; raises RuntimeError while the Sentinels know none."""
        primary = self.redis.find_primary()
        if primary is None:
            raise RuntimeError("Redis has no primary")
        index = self.redis.hosts.index(primary)
        return self.redis_servers[index], self.sentinels[index]

    def stop(self) -> None:
        """Stop everything that was started here."""
        for service in reversed(self.watched):
            service.stop()

    def _name_hosts(self) -> None:
        realm = "corp.example.test"
        lines = ["127.0.0.1 localhost"]
        for name, host in self._hosts.items():
            full = f"{name}.{realm}" if name.startswith("dc") else public_name(host)
            lines.append(f"{host.address} {full} {name}{f' {realm}' if name == 'dc1' else ''}")
        bind_over(Path("/etc/hosts"), "\n".join([*lines, ""]), self._folder)

    def _start_controllers(self, stack: ExitStack) -> tuple[ReplicatingController, ReplicatingController]:
        addresses = (self._hosts["dc1"].address, self._hosts["dc2"].address)
        bind_over(Path("/etc/resolv.conf"), "".join(f"nameserver {each}\n" for each in addresses), self._folder)
        os.environ["KRB5_CONFIG"] = str(self._folder / "krb5.conf")
        (self._folder / "krb5.conf").write_text(kerberos_configuration(addresses))
        controllers = make_domain(self._folder, (self._hosts["dc1"], self._hosts["dc2"]))
        for controller in controllers:
            stack.callback(controller.stop)
        return controllers

    def _start_database(self, stack: ExitStack) -> Pair:
        servers = [
            Server(self._hosts[name], stack.enter_context(small_disk(self._folder / f"disk-{name}", _DATABASE_DISK)))
            for name in ("db1", "db2")
        ]
        pair = Pair(*servers)
        stack.callback(pair.stop)
        pair.start()
        return pair

    def _redis_machine(self, host: Host, disks: Mapping[str, Path]) -> Machine:
        command = without_fake_clock(self.redis.server_command(host, disks[host.name]))
        return self._machine(host.name, command, disks, lambda: self.redis.is_answering(host, PORT))

    def _sentinel_machine(self, host: Host, disks: Mapping[str, Path]) -> Machine:
        command = without_fake_clock(self.redis.sentinel_command(disks[host.name]))
        is_ready = partial(self.redis.is_answering, host, SENTINEL_PORT)
        return self._machine(host.name, command, disks, is_ready, name=f"sentinel-of-{host.name}")

    def _machine(
        self,
        host_name: str,
        command: list[str],
        disks: Mapping[str, Path],
        is_ready: Callable[[], bool] | None,
        *,
        name: str = "",
    ) -> Machine:
        host, name = self._hosts[host_name], name or host_name
        environment = {**self.environment, "GATEWAY_DATA_DIR": str(disks[host_name] / "data")}
        if host_name in CLOCK_OFFSETS:
            environment |= clock_shift_environment(CLOCK_OFFSETS[host_name], self._folder)
        service = Service(
            name,
            host.command(*command),
            environment=environment,
            log_file=self._folder / f"{name}.log",
            is_ready=is_ready or (lambda: bool(service.children)),
        )
        return Machine(host, service, disks[host_name])

    def _health_of(self, name: str) -> Callable[[], bool]:
        return lambda: is_healthy(f"http://{self._hosts[name].address}:{_WEB_PORT}")

    def _nginx_configuration(self, disk: Path) -> Path:
        """Write deploy/nginx/gateway.conf for both web hosts, without TLS, which is not under test here."""
        text = (PROJECT / "deploy" / "nginx" / "gateway.conf").read_text()
        servers = "\n".join(f"    server {self._hosts[name].address}:{_WEB_PORT};" for name in ("web1", "web2"))
        text = text.replace("    server 127.0.0.1:8000;", servers).replace("443 ssl http2", str(_PORT))
        text = re.sub(r"server \{\n    listen 80;.*?\n\}\n", "", text, flags=re.DOTALL)
        text = re.sub(r"\n    ssl_.*", "", text)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temp_paths = "".join(f"{kind}_temp_path {disk}/{kind};\n" for kind in kinds)
        file = self._folder / "nginx.conf"
        file.write_text(
            f"daemon off; pid {disk}/nginx.pid; error_log stderr; worker_processes 1; events {{}}\n"
            f"http {{ access_log off;\n{temp_paths}\n{text}\n}}\n"
        )
        return file


@contextmanager
def running_cluster(folder: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """Start the domain, the database and Redis; the caller starts the gateway, which has these settings."""
    with ExitStack() as stack:
        cluster = Cluster(folder, settings, stack)
        stack.callback(cluster.stop)
        cluster.start_redis()
        cluster.manage("migrate", "-v0")
        yield cluster
