"""Every host of the cluster and what runs there: two of each, three of Redis, one load balancer."""

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gateway.server.commands import web_command, worker_command
from lab.clock import by_the_machines_clock
from lab.cluster import database
from lab.cluster.controllers import ReplicatingController, kerberos_configuration, make_domain
from lab.cluster.database import Pair, Server
from lab.cluster.network import Host, environment_at, make_bridge, put_over, small_disk
from lab.cluster.redis_hosts import PORT, SENTINEL_PORT, RedisHosts, name_of
from lab.commands import PROJECT
from lab.domain import Domain
from lab.gateway import Commands, settings_of_gateway
from lab.http import is_healthy
from lab.releases import PRESENT
from lab.services import Service, watch
from lab.waiting import wait_until

AHEAD = {"web2": 180, "worker2": -150}
"""By how many seconds the clocks of some hosts are wrong; the domain itself would not bear more than five minutes."""
STICKY_SECONDS = 300
"""Longer than replication takes between the sites while one fault after the other keeps them apart."""
_NUMBERS = {
    "dc1": 11, "dc2": 12, "db1": 21, "db2": 22, "redis1": 31, "redis2": 32, "redis3": 33,
    "web1": 41, "web2": 42, "worker1": 51, "worker2": 52, "balancer": 61,
}  # fmt: skip
"""The hosts, and the last number of their addresses."""
_WEB_PORT, _PORT = 8000, 8080
_DISK, _DATABASE_DISK = "16m", "480m"
_EVEN_WITHIN = 600.0


@dataclass
class Machine:
    """A host, a service that runs on it, and the disk that it writes to."""

    host: Host
    service: Service
    disk: Path


class Cluster(Commands):
    """All of it, started in a folder; only the gateway itself waits for `start`, since it needs keys first."""

    release = PRESENT

    def __init__(self, folder: Path, settings: Mapping[str, str], stack: ExitStack) -> None:
        self._folder = folder
        self._ended = threading.Event()
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
        self.environment = settings_of_gateway(folder, database_url=self.database_url, redis_url="")
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
        self._below = [*self.redis_servers, *self.sentinels]
        self.machines = [*self._below, *self.workers, *self.webs, self.balancer]

    @property
    def directory_urls(self) -> Sequence[str]:
        """Both domain controllers, in their order."""
        return [controller.url for controller in self.controllers]

    @property
    def gateways(self) -> list[Host]:
        """The hosts of the gateway itself."""
        return [machine.host for machine in (*self.webs, *self.workers)]

    def start(self) -> None:
        """Start the gateway and its balancer, and watch over all from now on."""
        gateway = self.machines[len(self._below) :]
        for machine in gateway:
            machine.service.start()
        for machine in gateway:
            machine.service.wait_until_ready(600)
        watch([machine.service for machine in self.machines], self._ended)

    def start_redis(self) -> None:
        """Start the servers and their Sentinels; nothing of the gateway does without them for long."""
        for machine in self._below:
            machine.service.start()
            machine.service.wait_until_ready()
        wait_until(self.redis.is_whole, _EVEN_WITHIN, "Redis has no primary with two replicas")

    def primary(self) -> tuple[Machine, Machine]:
        """Redis' primary and the Sentinel beside it. Raises RuntimeError while the Sentinels know of none."""
        primary = self.redis.find_primary()
        if primary is None:
            raise RuntimeError("Redis has no primary")
        place = self.redis.hosts.index(primary)
        return self.redis_servers[place], self.sentinels[place]

    def wait_until_ready(self) -> None:
        for machine in self.machines:
            machine.service.wait_until_ready(300)

    def ended_alone(self) -> list[str]:
        """The processes of the gateway that ended although nobody had killed them."""
        return [each for machine in self.machines for each in machine.service.ended_alone]

    def stop(self) -> None:
        """End what was started here."""
        self._ended.set()
        for machine in reversed(self.machines):
            machine.service.stop()

    def _name_hosts(self) -> None:
        realm = "corp.example.test"
        lines = ["127.0.0.1 localhost"]
        for name, host in self._hosts.items():
            full = f"{name}.{realm}" if name.startswith("dc") else name_of(host)
            lines.append(f"{host.address} {full} {name}{f' {realm}' if name == 'dc1' else ''}")
        put_over(Path("/etc/hosts"), "\n".join([*lines, ""]), self._folder)

    def _start_controllers(self, stack: ExitStack) -> tuple[ReplicatingController, ReplicatingController]:
        addresses = (self._hosts["dc1"].address, self._hosts["dc2"].address)
        put_over(Path("/etc/resolv.conf"), "".join(f"nameserver {each}\n" for each in addresses), self._folder)
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
        command = by_the_machines_clock(self.redis.server_command(host, disks[host.name]))
        return self._machine(host.name, command, disks, lambda: self.redis.answers(host, PORT))

    def _sentinel_machine(self, host: Host, disks: Mapping[str, Path]) -> Machine:
        command = by_the_machines_clock(self.redis.sentinel_command(disks[host.name]))
        is_ready = partial(self.redis.answers, host, SENTINEL_PORT)
        return self._machine(host.name, command, disks, is_ready, name=f"sentinel-of-{host.name}")

    def _machine(
        self,
        place: str,
        command: list[str],
        disks: Mapping[str, Path],
        is_ready: Callable[[], bool] | None,
        *,
        name: str = "",
    ) -> Machine:
        host, name = self._hosts[place], name or place
        environment = {**self.environment, "GATEWAY_DATA_DIR": str(disks[place] / "data")}
        if place in AHEAD:
            environment |= environment_at(AHEAD[place], self._folder)
        service = Service(
            name,
            host.command(*command),
            environment=environment,
            log_file=self._folder / f"{name}.log",
            is_ready=is_ready or (lambda: bool(service.children)),
        )
        return Machine(host, service, disks[place])

    def _health_of(self, name: str) -> Callable[[], bool]:
        return lambda: is_healthy(f"http://{self._hosts[name].address}:{_WEB_PORT}")

    def _nginx_configuration(self, disk: Path) -> Path:
        """deploy/nginx/gateway.conf for both web hosts, without TLS: that is not what is tried here."""
        text = (PROJECT / "deploy" / "nginx" / "gateway.conf").read_text()
        servers = "\n".join(f"    server {self._hosts[name].address}:{_WEB_PORT};" for name in ("web1", "web2"))
        text = text.replace("    server 127.0.0.1:8000;", servers).replace("443 ssl http2", str(_PORT))
        text = re.sub(r"server \{\n    listen 80;.*?\n\}\n", "", text, flags=re.DOTALL)
        text = re.sub(r"\n    ssl_.*", "", text)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "".join(f"{kind}_temp_path {disk}/{kind};\n" for kind in kinds)
        file = self._folder / "nginx.conf"
        file.write_text(
            f"daemon off; pid {disk}/nginx.pid; error_log stderr; worker_processes 1; events {{}}\n"
            f"http {{ access_log off;\n{places}\n{text}\n}}\n"
        )
        return file


@contextmanager
def running_cluster(folder: Path, settings: Mapping[str, str]) -> Iterator[Cluster]:
    """Domain, database and Redis run; the gateway, with these settings, is the caller's to start."""
    with ExitStack() as stack:
        cluster = Cluster(folder, settings, stack)
        stack.callback(cluster.stop)
        cluster.start_redis()
        cluster.manage("migrate", "-v0")
        yield cluster
