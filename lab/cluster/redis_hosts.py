"""Redis on three hosts as `deploy/redis` has it: a primary and two replicas, and on each host a Sentinel.

Which of them is the primary the Sentinels decide. They are asked here as anybody could ask them, not by the gateway.
"""

import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry

from lab.cluster.network import Host
from lab.redis import deployed_configuration

PORT, SENTINEL_PORT = 6379, 26379
_SERVICE = "gateway"
_SECONDS = 2.0
_AGREED = 2
"""So many Sentinels have to say the same: the quorum of deploy/redis/sentinel.conf."""


def name_of(host: Host) -> str:
    """What the files in `deploy` call it."""
    return f"{host.name}.example.com"


class RedisHosts:
    """The three hosts; the first is the primary at the beginning. What runs there is started by others."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._password, self._password_of_sentinels = secrets.token_urlsafe(16), secrets.token_urlsafe(16)

    @property
    def settings(self) -> dict[str, str]:
        """What the gateway is told."""
        addresses = ",".join(f"{name_of(host)}:{SENTINEL_PORT}" for host in self.hosts)
        return {
            "REDIS_URL": f"sentinel://{addresses}/{_SERVICE}",
            "REDIS_PASSWORD": self._password,
            "REDIS_SENTINEL_PASSWORD": self._password_of_sentinels,
        }

    def server_command(self, host: Host, disk: Path) -> list[str]:
        """The server of a host, which Sentinel configures anew in the file on its disk."""
        passwords = f"requirepass {self._password}\nmasterauth {self._password}"
        named = {"replica-announce-ip redis1.example.com": f"replica-announce-ip {name_of(host)}"}
        own = {"include /etc/redis/password.conf": passwords, "/var/lib/redis": str(disk), **named}
        if host is not self.hosts[0]:
            own["# replicaof"] = "replicaof"
        return ["redis-server", str(deployed_configuration("redis.conf", own, disk / "redis.conf"))]

    def sentinel_command(self, disk: Path) -> list[str]:
        """The Sentinel of a host."""
        own = {
            "/var/lib/redis": str(disk),
            "CHANGE-redis-password": self._password,
            "CHANGE-redis-sentinel-password": self._password_of_sentinels,
        }
        return ["redis-server", str(deployed_configuration("sentinel.conf", own, disk / "sentinel.conf")), "--sentinel"]

    def find_primary(self) -> Host | None:
        """The primary, by most Sentinels; None while they do not agree."""
        said = Counter[Host]()
        for host in self.hosts:
            answer = self._ask(host, SENTINEL_PORT, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", _SERVICE)
            said.update(each for each in self.hosts if answer and answer[0] in (each.address, name_of(each)))
        found = said.most_common(1)
        return found[0][0] if found and found[0][1] >= _AGREED else None

    def is_whole(self) -> bool:
        """Whether one takes writes, and both others follow it."""
        primary = self.find_primary()
        if primary is None or not self._ask(primary, PORT, "SET", "is-whole", "1"):
            return False
        replication = self._ask(primary, PORT, "INFO", "replication")
        states = (
            [each["state"] for name, each in replication.items() if name.startswith("slave")] if replication else []
        )
        return states == ["online", "online"]

    def answers(self, host: Host, port: int) -> bool:
        """Whether a server or a Sentinel answers at all."""
        return bool(self._ask(host, port, "PING"))

    def flush(self) -> None:
        """Lose all that it knows."""
        primary = self.find_primary()
        if primary is not None:
            self._ask(primary, PORT, "FLUSHALL")

    def _ask(self, host: Host, port: int, *command: str) -> Any:
        """What it answers; None where it does not."""
        password = self._password_of_sentinels if port == SENTINEL_PORT else self._password
        client = Redis(
            host.address, port, password=password, socket_timeout=_SECONDS, retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )  # fmt: skip
        with suppress(RedisError), client:
            return client.execute_command(*command)  # type: ignore[no-untyped-call]
        return None
