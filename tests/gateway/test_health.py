"""Liveness, readiness and measurements through the real addresses, with the real servers going away."""

from typing import Any

import pytest
from django.test import Client

from directory.models import DirectoryConnection
from gateway.health import _readiness
from tests.support.redis import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)  # the checks have database connections of their own


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    _readiness.__init__()


def ready(client: Client, **more: Any) -> tuple[int, dict[str, Any]]:
    response = client.get("/health/ready", **more)
    return response.status_code, response.json()


def test_health_asks_nothing(client: Client, redis_server: RedisServer) -> None:
    redis_server.pause()
    try:
        response = client.get("/health")
    finally:
        redis_server.resume()
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "RateLimit-Policy" not in response


def test_ready(client: Client) -> None:
    status, body = ready(client)
    assert (status, body["status"]) == (200, "ok")
    assert [check["name"] for check in body["checks"]] == ["database", "broker"]


def test_details_are_for_allowed_addresses(client: Client) -> None:
    assert ready(client, REMOTE_ADDR="192.0.2.1") == (200, {"status": "ok"})
    assert client.get("/metrics").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.1").status_code == 404


def test_broker_away(client: Client, redis_server: RedisServer) -> None:
    redis_server.pause()
    try:
        status, body = ready(client)
    finally:
        redis_server.resume()
    assert status == 503
    assert {check["name"]: check["status"] for check in body["checks"]}["broker"] == "unavailable"


def test_directory_away(client: Client) -> None:
    DirectoryConnection.objects.create(
        name="nowhere", urls=["ldaps://127.0.34.2"], base_dn="DC=x", bind_dn="CN=x", bind_password="x"
    )
    status, body = ready(client)
    assert status == 503
    assert body["checks"][-1]["name"] == "directory nowhere"
    assert body["checks"][-1]["detail"]
