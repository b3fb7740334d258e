"""Redis with Sentinel as `deploy/redis` has it, on loopback ports of their own: four servers and one Sentinel."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from lab.clock import without_fake_clock
from lab.commands import PROJECT
from lab.redis import deployed_configuration
from lab.services import Service, free_port
from lab.waiting import wait_until

NAME = "gateway"
_DOWN_AFTER = 1000
"""Milliseconds; a deployment has more patience."""
_INCLUDE = "include /etc/redis/password.conf"
_OWN_NAME = "replica-announce-ip redis1.example.com"


class Watched:
    """A primary, three replicas, and a Sentinel that promotes one of these when that one does not answer.

    Two of the four can be lost: without a replica the last one takes no writes.

    With `tls` (files of a certificate, its key and its authority) they speak nothing else.
    """

    def __init__(self, place: Path, *, password: str, sentinel_password: str, tls: Sequence[Path] = ()) -> None:
        self.password, self.sentinel_password = password, sentinel_password
        self.ports = [free_port() for _ in range(4)]
        self.sentinel_port = free_port()
        self._place, self._tls = place, tls
        self.servers: dict[int, Service] = {}
        """By their ports."""
        self._clients: dict[int, Redis] = {}

    def start(self) -> None:
        """Start all of them, and wait until the Sentinel knows the replicas."""
        first = self.ports[0]
        for port in self.ports:
            role = "" if port == first else f"replicaof 127.0.0.1 {first}"
            roles = {"# replicaof redis1.example.com 6379": role, _OWN_NAME: "replica-announce-ip 127.0.0.1"}
            self._start(port, "redis.conf", {**roles, _INCLUDE: self._passwords()})
        wait_until(lambda: all(self.ask(port, "PING") for port in self.ports))
        own = {
            "redis1.example.com 6379 2": f"127.0.0.1 {first} 1",
            "milliseconds gateway 5000": f"milliseconds gateway {_DOWN_AFTER}",
            # Twice as long it waits before it tries again, where a busy machine did not let it finish.
            "failover-timeout gateway 30000": "failover-timeout gateway 5000",
            "CHANGE-redis-password": f'"{self.password}"',
            "CHANGE-redis-sentinel-password": f'"{self.sentinel_password}"',
        }
        self._start(self.sentinel_port, "sentinel.conf", own, "--sentinel")
        wait_until(lambda: len(self.ask(self.sentinel_port, "SENTINEL", "REPLICAS", NAME) or ()) == 3)

    def stop(self) -> None:
        """End whatever was started."""
        for client in self._clients.values():
            client.close()
        for server in self.servers.values():
            server.stop()

    @property
    def primary(self) -> int:
        """The port of the primary, by the Sentinel."""
        found = self.ask(self.sentinel_port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return int(found[1])

    def ask(self, port: int, *command: str) -> Any:
        """What a server answers; None where it does not."""
        try:
            return self._client(port).execute_command(*command)  # type: ignore[no-untyped-call]
        except RedisError:
            return None

    def _client(self, port: int) -> Redis:
        if port not in self._clients:
            password = self.sentinel_password if port == self.sentinel_port else self.password
            tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(self._tls[2])} if self._tls else {}
            options: dict[str, Any] = {"socket_timeout": 5, "retry": Retry(NoBackoff(), 1), "decode_responses": True}
            self._clients[port] = Redis("127.0.0.1", port, password=password, **options, **tls)
        return self._clients[port]

    def _start(self, port: int, name: str, own: Mapping[str, str], *options: str) -> None:
        listens = ("port 0", f"tls-port {port}", *self._tls_lines()) if self._tls else (f"port {port}",)
        found = re.search(r"^port \d+$", (PROJECT / "deploy" / "redis" / name).read_text("utf-8"), re.MULTILINE)
        assert found is not None
        own = {"bind * -::*": "bind 127.0.0.1", "/var/lib/redis": str(self._place), found[0]: "\n".join(listens), **own}
        file = deployed_configuration(name, own, self._place / f"{port}.conf")
        self.servers[port] = Service(
            f"redis at {port}",
            without_fake_clock(["redis-server", str(file), *options]),
            is_ready=lambda: self.ask(port, "PING"),
            log_file=self._place / f"{port}.log",
        )
        self.servers[port].start()

    def _passwords(self) -> str:
        return f'requirepass "{self.password}"\nmasterauth "{self.password}"\nrepl-diskless-sync-delay 0'

    def _tls_lines(self) -> list[str]:
        names = ("tls-cert-file", "tls-key-file", "tls-ca-cert-file")
        files = [f"{name} {file}" for name, file in zip(names, self._tls, strict=True)]
        return [*files, "tls-auth-clients no", "tls-replication yes"]
