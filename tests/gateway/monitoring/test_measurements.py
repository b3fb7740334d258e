"""What Prometheus is told: of each domain controller, of what waits and of what ends soon."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.support.cast import make_connection, make_integration
from tests.support.domain import Domain
from tests.support.proxy import FaultyProxy
from tests.support.redis import RedisServer

pytestmark = pytest.mark.django_db


def measured(client: Client) -> dict[str, float]:
    """Every sample by its name with its labels, as in the exposition."""
    text = client.get("/metrics").content.decode()
    return {
        name: float(value) for name, value in re.findall(r"^(gateway_\S+(?: [^\d-][^ ]*)*) (\S+)$", text, re.MULTILINE)
    }


def value(client: Client, name: str, **labels: str) -> float:
    """The sum of the samples of this name that have these labels; 0 without any."""
    wanted = [f'{label}="{text}"' for label, text in labels.items()]
    found = measured(client)
    return sum(
        each for sample, each in found.items() if re.match(rf"{name}\b", sample) and all(w in sample for w in wanted)
    )


def test_directories(client: Client, redis_server: RedisServer, domain: Domain, directory_proxy: FaultyProxy) -> None:
    key = make_integration(make_connection(domain, url=directory_proxy.url))
    server = directory_proxy.url
    assert value(client, "gateway_directory_seconds_count", server=server) == 0
    assert key.get("/api/ad/users?q=Administrator").status == 200
    searches = value(client, "gateway_directory_seconds_count", server=server, kind="search")
    waits = value(client, "gateway_directory_wait_seconds_count")
    assert searches >= 1
    assert waits >= searches
    directory_proxy.close()
    assert key.get("/api/ad/users?q=Administrator").status == 503
    assert value(client, "gateway_directory_failures_total", server=server) >= 1


def test_a_refused_bind(client: Client, redis_server: RedisServer, domain: Domain) -> None:
    before = value(client, "gateway_directory_failures_total", error="BadCredentials")
    key = make_integration(make_connection(domain, bind_password="not its password"))
    assert key.get("/api/ad/users?q=Administrator").status >= 500
    assert value(client, "gateway_directory_failures_total", error="BadCredentials") == before + 1


def test_credentials(client: Client, redis_server: RedisServer) -> None:
    before = {kind: value(client, "gateway_credentials_refused_total", kind=kind) for kind in ("sign-in", "credential")}
    body = {"username": "nobody", "password": "nothing"}
    assert client.post("/rest/session", body, content_type="application/json").status_code == 401
    assert client.get("/api/me", headers={"X-API-Key": "dgk_none"}).status_code == 401
    after = {kind: value(client, "gateway_credentials_refused_total", kind=kind) for kind in before}
    assert after == {kind: count + 1 for kind, count in before.items()}


def test_what_waits_and_what_ends(client: Client, redis_server: RedisServer, domain: Domain) -> None:
    connection = make_connection(domain, name="Corp")
    key = make_integration(connection).key
    key.expires_at = timezone.now() + timedelta(days=20)
    key.save()
    assert value(client, "gateway_api_keys_expiring", within="7d") == 0
    assert value(client, "gateway_api_keys_expiring", within="30d") == 1
    ends = value(client, "gateway_directory_ca_expiry_timestamp_seconds", directory="Corp")
    assert ends > timezone.now().timestamp()
    assert value(client, "gateway_workers") == 0
    assert value(client, "gateway_log_open_records") == 0
    assert "gateway_log_intact" not in measured(client)
    redis_server.pause()
    try:  # what the broker alone knows is left out, and the rest is told
        told = measured(client)
    finally:
        redis_server.resume()
    assert "gateway_workers" not in told
    assert "gateway_log_open_records" in told
