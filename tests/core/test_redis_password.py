"""A Redis that asks for a password, with every character that means something in a URL."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.cache.backends.redis import RedisCache
from kombu import Connection
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

from core import rate_limits
from core.configuration import BadConfiguration
from core.redis import clients
from core.redis.urls import broker_from, redis_from, redis_warning
from gateway.monitoring import workers
from gateway.monitoring.readiness import Readiness
from lab.clock import without_fake_clock
from lab.services import free_port

PASSWORD = "p@ss/w:rd%2F#?& ü"
WRONG = "an0ther@/secret"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    port, socket = free_port(), tmp_path_factory.mktemp("redis") / "redis.sock"
    configuration = f'requirepass "{PASSWORD}"\nbind 127.0.0.1\nport {port}\nunixsocket {socket}\nsave ""\n'
    command = without_fake_clock(["redis-server", "-"])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    process.stdin.write(configuration.encode())
    process.stdin.close()
    deadline = time.monotonic() + 120
    while not socket.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield port, socket
    process.terminate()
    process.wait(60)


def urls(server: tuple[int, Path], password: str) -> list[str]:
    port, socket = server
    encoded = quote(password, safe="")
    return [
        f"redis://:{encoded}@127.0.0.1:{port}/0",
        f"redis://default:{encoded}@127.0.0.1:{port}/1",
        f"unix://:{encoded}@{socket}",
        f"unix://{socket}?password={encoded}&db=1",
    ]


@pytest.mark.parametrize("number", range(4))
def test_every_client_gives_it(
    server: tuple[int, Path], number: int, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "TIMEOUT", 60.0)  # no request waits here
    url = redis_from(urls(server, PASSWORD)[number])
    settings.REDIS_URL = url
    workers.send_heartbeat("celery@here")
    assert [worker.name for worker in workers.find_workers()] == ["celery@here"]
    workers.remove_heartbeat("celery@here")
    assert count(f"key {number}") == 1
    RedisCache(url, {}).set("a", "b")
    assert RedisCache(url, {}).get("a") == "b"
    with Connection(broker_from(url)) as broker:
        channel: Any = broker.default_channel
        assert channel.client.ping()


def count(name: str) -> int:
    (usage,) = rate_limits.count([(rate_limits.Policy(name, 1, 60), "somebody")])
    return usage.requests


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", range(4))
def test_a_wrong_one_is_told_without_being_shown(
    server: tuple[int, Path],
    number: int,
    settings: Any,
    capfd: pytest.CaptureFixture,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.monitoring.readiness.TIMEOUT_SECONDS", 60.0)
    settings.REDIS_URL = url = redis_from(urls(server, WRONG)[number])
    (broker,) = [check for check in Readiness().checks() if check.name == "broker"]
    assert "WRONGPASS" in broker.detail or "invalid" in broker.detail
    told = broker.detail
    for attempt in (
        lambda: workers.send_heartbeat("x"),
        lambda: count("key"),
        Connection(broker_from(url)).connect,
    ):
        with pytest.raises((RedisError, OperationalError, rate_limits.CountersUnavailable)) as refusal:
            attempt()
        told += f"{refusal.value!r} {refusal.value.__cause__!r}"
    told += Connection(broker_from(url)).as_uri() + caplog.text + "".join(capfd.readouterr())
    assert WRONG not in told
    assert quote(WRONG, safe="") not in told


@pytest.mark.parametrize(
    "url",
    [
        "redis://:se/cret@127.0.0.1:6379/0",
        "redis://:se#cret@127.0.0.1:6379/0",
        "redis://:se?cret@127.0.0.1:6379/0",
        "redis://:secret@[::1:6379/0",
        "redis://:secret@",
        "unix://:secret@",
        "se cret",
        "http://:secret@127.0.0.1/",
        "redis+socket:///secret",
        "redis://:secret@127.0.0.1:99999/0",
    ],
)
def test_a_url_that_is_none_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(BadConfiguration, match="REDIS_URL") as refusal:
        redis_from(url)
    assert "cret" not in str(refusal.value)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "is_careless"),
    [
        ("redis://127.0.0.1:6379/0", False),
        ("redis://localhost:6379/0", False),
        ("redis://[::1]:6379/0", False),
        ("redis://10.1.2.3:6379/0", True),
        ("rediss://redis.example.com/0", True),
        ("redis://someone@redis.example.com/0", True),
        ("redis://:secret@redis.example.com/0", False),
        ("redis://redis.example.com/0?password=secret", False),
        ("unix:///nowhere/redis.sock", False),
    ],
)
def test_a_redis_that_others_reach_without_a_password_is_warned_of(url: str, is_careless: bool) -> None:
    assert (redis_warning(url) is not None) is is_careless


def test_a_socket_that_everybody_may_use_is_warned_of(tmp_path: Path) -> None:
    socket = tmp_path / "redis.sock"
    socket.touch()
    for mode, is_careless in ((0o700, False), (0o770, False), (0o777, True)):
        socket.chmod(mode)
        assert (redis_warning(f"unix://{socket}") is not None) is is_careless


def test_the_server_without_a_password_is_nobodys(server: tuple[int, Path]) -> None:
    with pytest.raises(RedisError):
        Redis(port=server[0]).ping()
