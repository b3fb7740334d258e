"""Redis on three hosts as `deploy/redis` has it: a primary and two replicas, and on each host a Sentinel.

The Sentinels decide which one is the primary. They are queried here independently of the gateway's client.
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
_QUORUM = 2
"""How many Sentinels have to agree, as in deploy/redis/sentinel.conf."""


def public_name(host: Host) -> str:
    """The name of a host in the files of `deploy`."""
    return f"{host.name}.example.com"


class RedisHosts:
    """The three hosts, of which the first is the initial primary. Their servers are started elsewhere."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = hosts
        self._password, self._sentinel_password = secrets.token_urlsafe(16), secrets.token_urlsafe(16)

    @property
    def settings(self) -> dict[str, str]:
        """The gateway's settings for this Redis."""
        addresses = ",".join(f"{public_name(host)}:{SENTINEL_PORT}" for host in self.hosts)
        return {
            "REDIS_URL": f"sentinel://{addresses}/{_SERVICE}",
            "REDIS_PASSWORD": self._password,
            "REDIS_SENTINEL_PASSWORD": self._sentinel_password,
        }

    def server_command(self, host: Host, disk: Path) -> list[str]:
        """The command of a host's server. Sentinel rewrites the configuration file on its disk."""
        passwords = f"requirepass {self._password}\nmasterauth {self._password}"
        named = {"replica-announce-ip redis1.example.com": f"replica-announce-ip {public_name(host)}"}
        own = {"include /etc/redis/password.conf": passwords, "/var/lib/redis": str(disk), **named}
        if host is not self.hosts[0]:
            own["# replicaof"] = "replicaof"
        return ["redis-server", str(deployed_configuration("redis.conf", own, disk / "redis.conf"))]

    def sentinel_command(self, disk: Path) -> list[str]:
        """The command of a host's Sentinel."""
        own = {
            "/var/lib/redis": str(disk),
            "CHANGE-redis-password": self._password,
            "CHANGE-redis-sentinel-password": self._sentinel_password,
        }
        return ["redis-server", str(deployed_configuration("sentinel.conf", own, disk / "sentinel.conf")), "--sentinel"]

    def find_primary(self) -> Host | None:
        """The primary according to a quorum of Sentinels; None while they disagree."""
        votes = Counter[Host]()
        for host in self.hosts:
            answer = self._ask(host, SENTINEL_PORT, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", _SERVICE)
            votes.update(each for each in self.hosts if answer and answer[0] in (each.address, public_name(each)))
        found = votes.most_common(1)
        return found[0][0] if found and found[0][1] >= _QUORUM else None

    def is_complete(self) -> bool:
        """Whether there is a primary that accepts writes, and both others replicate from it."""
        primary = self.find_primary()
        if primary is None or not self._ask(primary, PORT, "SET", "is-whole", "1"):
            return False
        replication = self._ask(primary, PORT, "INFO", "replication")
        states = (
            [each["state"] for name, each in replication.items() if name.startswith("slave")] if replication else []
        )
        return states == ["online", "online"]

    def is_answering(self, host: Host, port: int) -> bool:
        """Whether a server or a Sentinel answers."""
        return bool(self._ask(host, port, "PING"))

    def flush(self) -> None:
        """Delete all data."""
        primary = self.find_primary()
        if primary is not None:
            self._ask(primary, PORT, "FLUSHALL")

    def _ask(self, host: Host, port: int, *command: str) -> Any:
        """The answer to a command; None if there is none."""
        password = self._sentinel_password if port == SENTINEL_PORT else self._password
        client = Redis(
            host.address, port, password=password, socket_timeout=_SECONDS, retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )  # fmt: skip
        with suppress(RedisError), client:
            return client.execute_command(*command)  # type: ignore[no-untyped-call]
        return None
