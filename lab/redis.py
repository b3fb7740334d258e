"""Redis on a Unix socket without persistence, and the files of deploy/redis adapted to this machine."""

import socket
from collections.abc import Mapping
from pathlib import Path

from lab.clock import without_fake_clock
from lab.commands import PROJECT
from lab.services import Service


class RedisServer(Service):
    """A Redis server on a Unix socket."""

    def __init__(self, socket_file: Path) -> None:
        self.socket_file = socket_file
        self.url = f"unix://{socket_file}"
        super().__init__(
            "redis",
            without_fake_clock(redis_command(socket_file)),
            is_ready=lambda: is_redis_answering(socket_file),
            log_file=socket_file.with_suffix(".log"),
        )


def redis_command(socket_file: Path) -> list[str]:
    """The command of Redis on a Unix socket, without persistence: the database recovers lost queue entries."""
    return [
        *("redis-server", "--port", "0", "--unixsocket", str(socket_file), "--unixsocketperm", "700"),
        *("--save", "", "--appendonly", "no", "--dir", str(socket_file.parent), "--loglevel", "warning"),
    ]


def is_redis_answering(socket_file: Path) -> bool:
    """Whether a Redis on this Unix socket is ready."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(str(socket_file))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def deployed_configuration(name: str, changes: Mapping[str, str], file: Path) -> Path:
    """Write a file of `deploy/redis` with changes, by the placeholder text that each replaces."""
    text = (PROJECT / "deploy" / "redis" / name).read_text("utf-8")
    for theirs, ours in changes.items():
        if theirs not in text:
            raise RuntimeError(f"deploy/redis/{name} has no {theirs!r} any more")
        text = text.replace(theirs, ours)
    file.write_text(text, "utf-8")
    return file
