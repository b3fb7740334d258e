"""Redis behind Sentinel: every client finds the primary, with passwords and TLS, and follows a fail-over."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.cache.backends.redis import RedisCache
from django.core.management import call_command
from django.test import override_settings
from kombu import Connection

from core import rate_limits
from core.configuration import BadConfiguration
from core.redis.clients import CachePool, broker_options_from, broker_tls_from, find_primary
from core.redis.urls import broker_from, redis_from, redis_warning, sentinels_of
from gateway.monitoring import workers
from lab.directory import Directory, random_name
from lab.samba.certificates import CertificateAuthority
from lab.services import free_port
from lab.waiting import wait_until
from tests.directory.runs.unit import Unit
from tests.support.cast import Integration
from tests.support.database import gateway_at
from tests.support.sentinel import NAME, Watched

PASSWORD = "p@ss/w:rd%2F#?& ü"
OF_SENTINEL = "an0ther@/s;cret,&="


@contextmanager
def watched(place: Path, tls: tuple[Path, ...] = ()) -> Iterator[Watched]:
    servers = Watched(place, password=PASSWORD, sentinel_password=OF_SENTINEL, tls=tls)
    try:
        servers.start()
        yield servers
    finally:
        servers.stop()


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_the_gateway_follows_a_fail_over(
    tmp_path: Path, directory: Directory, organizational_unit: str, integration: Integration, settings: Any
) -> None:
    """Of a primary that hangs, which ends no connection, and of one that is killed."""
    unit = Unit(directory, organizational_unit)
    users = unit.add_users(3)
    key = {"X-API-Key": integration.value}
    place = f"/api/ad/organization-units/{unit.id}/accounts"

    def run(action: str) -> str:
        """Hand a run over: while there is no primary nobody takes it."""
        answers = []

        def is_taken() -> bool:
            answers.append(gateway.request("POST", f"{place}/{action}", body={"kinds": ["user"]}, headers=asked))
            return answers[-1][0] == 202

        asked = {**key, "Prefer": "respond-async"}
        wait_until(is_taken)
        assert {answer[0] for answer in answers} <= {202, 503}
        taken: str = answers[-1][2]["runId"]
        return taken

    def is_completed(run_id: str) -> bool:
        return bool(gateway.request("GET", f"/api/ad/runs/{run_id}", headers=key)[2]["state"] == "completed")

    def remaining() -> int:
        """Of the limit; waits until requests are counted."""
        found: list[str] = []

        def is_counted() -> bool:
            headers = gateway.request("GET", "/api/ad/users?pageSize=1", headers=key)[1]
            found[:] = re.findall(r'"Global";r=(\d+)', headers.get("ratelimit", ""))
            return bool(found)

        wait_until(is_counted)
        return int(found[0])

    with watched(tmp_path) as servers:
        nobody = f"127.0.0.1:{free_port()}"
        url = f"sentinel://{nobody},127.0.0.1:{servers.sentinel_port}/{NAME}"
        limits = '{"Requests": 100000, "WindowSeconds": 3600}'
        configuration = {"REDIS_URL": url, "REDIS_PASSWORD": PASSWORD, "REDIS_SENTINEL_PASSWORD": OF_SENTINEL}
        counted = {
            "RateLimiting__Enabled": "true",
            **dict.fromkeys(("RateLimiting__Global", "RateLimiting__DirectorySearch"), limits),
        }
        gateway = gateway_at(tmp_path / "gateway", configuration | counted, processes=1)
        try:
            gateway.web.start_and_wait()
            gateway.worker.start_and_wait()
            before = remaining()

            first = servers.primary
            servers.servers[first].pause()
            run_id = run("disable")
            wait_until(lambda: is_completed(run_id), seconds=300)
            assert unit.count_enabled(users) == 0
            assert servers.primary != first
            assert "another Redis is the primary now" in gateway.worker.output, "it waits for minutes otherwise"
            between = remaining()
            assert between < before

            second = servers.primary
            servers.servers[second].kill()
            assert remaining() < between, "the counters were those of the one that was killed"
            assert servers.primary not in (first, second)

            settings.REDIS_URL = redis_from(url, PASSWORD, OF_SENTINEL)
            told = StringIO()
            call_command("check", services=True, stdout=told)
            assert f"sentinel {nobody}: Error" in told.getvalue()
            knows = f"127.0.0.1:{servers.sentinel_port}: ok (primary 127.0.0.1:{servers.primary}, 3 replicas, 0 other"
            assert f"sentinel {knows}" in told.getvalue()
            logged = gateway.web.output + gateway.worker.output + told.getvalue()
            for secret in (PASSWORD, OF_SENTINEL):
                assert secret not in logged
                assert quote(secret, safe="") not in logged
        finally:
            gateway.stop()


def test_every_client_finds_the_primary_by_tls_and_takes_no_answer_but_its_own(tmp_path: Path, settings: Any) -> None:
    authority = CertificateAuthority(tmp_path)
    authority.create("Redis of the tests")
    files = tmp_path / "cert.pem", tmp_path / "key.pem", authority.certificate_file
    authority.issue(["127.0.0.1"], certificate_file=files[0], key_file=files[1])
    with watched(tmp_path, files) as servers:
        address = f"sentinels://127.0.0.1:{servers.sentinel_port}/{NAME}/1?ssl_ca_certs={files[2]}"
        settings.REDIS_URL = url = redis_from(address, PASSWORD, OF_SENTINEL)
        assert find_primary(url) == ("127.0.0.1", servers.primary)
        workers.send_heartbeat("celery@here")
        assert [worker.name for worker in workers.find_workers()] == ["celery@here"]
        assert count_anew(url) == 1
        RedisCache([url], {"OPTIONS": {"pool_class": CachePool}}).set("a", "b")
        assert RedisCache([url], {"OPTIONS": {"pool_class": CachePool}}).get("a") == "b"
        with Connection(
            broker_from(url), transport_options=broker_options_from(url), ssl=broker_tls_from(url) or False
        ) as broker:
            channel: Any = broker.default_channel
            assert channel.client.ping()
            assert channel.client.connection_pool.master_address == ("127.0.0.1", servers.primary)

        hanging = servers.primary
        servers.servers[hanging].pause()
        with pytest.raises(rate_limits.CountersUnavailable):
            count(url, "late")
        servers.servers[hanging].resume()
        answers: list[list[rate_limits.Usage]] = []

        def is_counted() -> bool:
            with suppress(rate_limits.CountersUnavailable):  # it is left alone for a moment after it failed
                answers.append(count(url, "one", "two"))
            return bool(answers)

        wait_until(is_counted)
        assert len(answers[0]) == 2, "and not the late answer, about one key"


def count(url: str, *names: str) -> list[rate_limits.Usage]:
    with override_settings(REDIS_URL=url):
        return rate_limits.count([(rate_limits.Policy(name, 1, 60), "somebody") for name in names])


def count_anew(url: str) -> int:
    """The count of a key that is new; a busy machine may take longer than a request waits for it."""
    counts: list[int] = []

    def is_counted() -> bool:
        with suppress(rate_limits.CountersUnavailable):
            counts.append(count(url, random_name("key"))[0].requests)
        return bool(counts)

    wait_until(is_counted)
    return counts[0]


def test_what_an_address_says() -> None:
    found = sentinels_of("sentinel://me:a%2Fb@one,[::1]:5,three:7/main/2?sentinel_username=you&sentinel_password=c%26d")
    assert found is not None
    assert found.addresses == (("one", 26379), ("::1", 5), ("three", 7))
    assert (found.service, found.database) == ("main", 2)
    assert found.server == {"username": "me", "password": "a/b"}
    assert found.sentinel == {"username": "you", "password": "c&d"}
    assert "a/b" not in repr(found)
    assert redis_from("sentinel://me@one/main", "a/b", "c&d") == "sentinel://me:a%2Fb@one/main?sentinel_password=c%26d"
    assert redis_warning("sentinel://one/main") is not None
    assert redis_warning("sentinel://127.0.0.1,[::1]/main") is None
    assert redis_warning("sentinel://:x@one/main") is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("sentinel://:se/cret@one/main",), "^REDIS_URL: must be"),
        (("sentinel://:secret@one",), "^REDIS_URL: must be"),
        (("sentinel://:secret@one,,two/main",), "^REDIS_URL: must be"),
        (("sentinel://one:99999/main?sentinel_password=secret",), "^REDIS_URL: must be"),
        (("sentinel://one/main/first",), "^REDIS_URL: must be"),
        (("sentinel://one/main?sentinel_pasword=secret",), "no parameter 'sentinel_pasword'"),
        (("sentinel://one/main?ssl_ca_certs=/a.pem",), "begin it with sentinels://"),
        (("sentinel://:one@one/main", "secret"), "^REDIS_PASSWORD: REDIS_URL has a password too"),
        (("sentinel://one/main?sentinel_password=x", "", "secret"), "^REDIS_SENTINEL_PASSWORD: REDIS_URL has a pass"),
        (("redis://one/0", "", "secret"), "^REDIS_SENTINEL_PASSWORD: REDIS_URL names no Sentinel"),
    ],
)
def test_what_is_none_stops_the_start_without_being_shown(arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(BadConfiguration, match=says) as refusal:
        redis_from(*arguments)
    assert "cret" not in str(refusal.value)
