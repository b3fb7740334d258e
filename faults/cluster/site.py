"""Every host of the cluster and what runs there; how they are broken is in `kinds`."""

import os
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import ldap

from demo.services import PROJECT
from faults.cluster import database
from faults.cluster.controllers import ReplicatingController, kerberos_configuration, make_domain
from faults.cluster.database import Pair, Server
from faults.cluster.network import Host, environment_at, make_bridge, put_over, small_disk
from faults.observed import Seen
from faults.servers import Commands, Service, environment_of
from faults.world import ATTRIBUTES
from gateway.server.commands import web_command, worker_command
from tests.support.directory import Directory, random_name
from tests.support.domain import Domain

AHEAD = {"web2": 180, "worker2": -150}
"""By how many seconds the clocks of some hosts are wrong; the domain itself would not bear more than five minutes."""
STICKY_SECONDS = 60
"""Longer than any fault lasts that keeps the domain controllers apart."""
_WEB_PORT, _PORT, _REDIS_PORT = 8000, 8080, 6379
_DISK, _DATABASE_DISK = "16m", "480m"
_EVEN_WITHIN = 180.0


@dataclass
class Machine:
    """A host with the one service that runs on it, and the disk that it writes to."""

    host: Host
    service: Service
    disk: Path


class Cluster(Commands):
    """Two of each but Redis and the load balancer; a `Site` of campaigns."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._ended = threading.Event()
        make_bridge()
        self._hosts: dict[str, Host] = {}
        numbers = {"dc1": 11, "dc2": 12, "db1": 21, "db2": 22, "redis": 31, "web1": 41, "web2": 42}
        for name, number in {**numbers, "worker1": 51, "worker2": 52, "balancer": 61}.items():
            self._hosts[name] = Host(name, number)
            self._hosts[name].start()
        self.controllers = self._start_controllers(stack)
        self.domain = Domain(self.controllers[0])
        self.database = self._start_database(stack)
        self.database_url = database.URL
        self.base_url = f"http://{self._hosts['balancer'].address}:{_PORT}"
        disks = {
            name: stack.enter_context(small_disk(folder / f"disk-{name}", _DISK))
            for name in ("redis", "web1", "web2", "worker1", "worker2", "balancer")
        }
        self.environment = environment_of(folder, database_url=self.database_url, redis_socket=folder / "unused")
        self.environment["REDIS_URL"] = f"redis://{self._hosts['redis'].address}:{_REDIS_PORT}/0"
        self.environment["Directory__StickySeconds"] = str(STICKY_SECONDS)
        self.environment["ForwardedHeaders__KnownProxies"] = f'["{self._hosts["balancer"].address}"]'
        self.redis = self._machine("redis", _redis_command(disks["redis"]), disks, self._redis_answers)
        web = web_command(host="0.0.0.0", port=_WEB_PORT, workers=1)  # noqa: S104 - in a namespace
        worker = worker_command("-W", "ignore:You're running the worker with superuser", concurrency=1)
        self.webs = [self._machine(name, web, disks, self._health_of(name)) for name in ("web1", "web2")]
        self.workers = [self._machine(name, worker, disks, None) for name in ("worker1", "worker2")]
        nginx = ["nginx", "-c", str(self._nginx_configuration(disks["balancer"])), "-g", "user root;"]
        self.balancer = self._machine("balancer", nginx, disks, lambda: _answers(f"{self.base_url}/health"))
        self.machines = [self.redis, *self.workers, *self.webs, self.balancer]

    @property
    def directory_urls(self) -> list[str]:
        """Both domain controllers, in their order."""
        return [controller.url for controller in self.controllers]

    @property
    def gateways(self) -> list[Host]:
        """The hosts of the gateway itself."""
        return [machine.host for machine in (*self.webs, *self.workers)]

    def start(self) -> None:
        """Start the gateway and its balancer, and watch over all from now on."""
        for machine in self.machines[1:]:
            machine.service.start()
        for machine in self.machines[1:]:
            machine.service.wait_until_ready(600)
        threading.Thread(target=self._watch, daemon=True).start()

    def wait_until_ready(self) -> None:
        for machine in self.machines:
            machine.service.wait_until_ready(300)

    def wait_until_even(self, directory: Directory) -> None:
        """Replication follows the order of changes: when a mark has arrived, what was changed before has too."""
        for source in self.controllers:
            with closing(self._connect(source)) as there:
                mark = there.add_unit(random_name("mark"))
                guid = there.guid(mark)
            for other in self.controllers:
                with closing(self._connect(other)) as here:
                    _wait_for(partial(here.exists, guid), "the domain controllers are not even")
        directory.reconnect()

    def differences(self, seen: Callable[[Directory], Mapping[str, Seen]]) -> dict[str, list[str]]:
        """What the two domain controllers hold of the same objects must be the same."""
        with closing(self._connect(self.controllers[0])) as one, closing(self._connect(self.controllers[1])) as other:
            first, second = seen(one), seen(other)
        return {
            "objects on which the domain controllers differ": [
                f"{guid}: {_told(first.get(guid))} and {_told(second.get(guid))}"
                for guid in first.keys() | second.keys()
                if _told(first.get(guid)) != _told(second.get(guid))
            ]
        }

    def stop(self) -> None:
        """End what was started here."""
        self._ended.set()
        for machine in reversed(self.machines):
            machine.service.stop()

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            for machine in self.machines:
                machine.service.look_after()

    def _start_controllers(self, stack: ExitStack) -> tuple[ReplicatingController, ReplicatingController]:
        addresses = (self._hosts["dc1"].address, self._hosts["dc2"].address)
        realm = "corp.example.test"
        names = f"127.0.0.1 localhost\n{addresses[0]} dc1.{realm} dc1 {realm}\n{addresses[1]} dc2.{realm} dc2\n"
        put_over(Path("/etc/hosts"), names, self._folder)
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

    def _machine(
        self, name: str, command: list[str], disks: Mapping[str, Path], is_ready: Callable[[], bool] | None
    ) -> Machine:
        host = self._hosts[name]
        environment = {**self.environment, "GATEWAY_DATA_DIR": str(disks[name] / "data")}
        if name in AHEAD:
            environment |= environment_at(AHEAD[name], self._folder)
        service = Service(
            name,
            host.command(*command),
            environment=environment,
            log_file=self._folder / f"{name}.log",
            is_ready=is_ready or (lambda: bool(service.children)),
        )
        return Machine(host, service, disks[name])

    def _health_of(self, name: str) -> Callable[[], bool]:
        return lambda: _answers(f"http://{self._hosts[name].address}:{_WEB_PORT}/health")

    def _redis_answers(self) -> bool:
        return _answers_ping(self._hosts["redis"].address)

    def _connect(self, controller: ReplicatingController) -> Directory:
        return self.domain.connect(url=controller.url)

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
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Domain, database and Redis run; the gateway is the caller's to start, once there are keys."""
    with ExitStack() as stack:
        cluster = Cluster(folder, stack)
        stack.callback(cluster.stop)
        cluster.redis.service.start()
        cluster.redis.service.wait_until_ready()
        migrated = cluster.manage("migrate", "-v0")
        if migrated.returncode != 0:
            raise RuntimeError(f"the database could not be migrated:\n{migrated.stdout}{migrated.stderr}")
        yield cluster


def _redis_command(disk: Path) -> list[str]:
    """With persistence: queued work outlives a restart, but for its last second."""
    return [
        *("redis-server", "--bind", "0.0.0.0", "--port", str(_REDIS_PORT), "--protected-mode", "no"),  # noqa: S104
        *(
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--save",
            "",
            "--dir",
            str(disk),
            "--loglevel",
            "warning",
        ),
    ]


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()  # noqa: S310 - our own
    except OSError:
        return False
    return True


def _answers_ping(address: str) -> bool:
    with suppress(OSError), socket.create_connection((address, _REDIS_PORT), timeout=2) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
    return False


def _told(seen: Seen | None) -> object:
    """What of an object must be the same everywhere."""
    if seen is None or seen.is_deleted:
        return "gone"
    names = (*ATTRIBUTES, "userAccountControl", "member")
    return seen.dn.lower(), sorted(seen.versions.items()), [sorted(seen.values.get(name, ())) for name in names]


def _wait_for(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _EVEN_WITHIN
    while True:
        with suppress(ldap.LDAPError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(complaint)
        time.sleep(0.5)
