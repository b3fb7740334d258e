"""Liveness, readiness and measurements through the real addresses, with the real servers going away."""

import socket
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection as database
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from redis import Redis

from directory.models import DirectoryConnection
from gateway.monitoring import workers
from gateway.monitoring.readiness import Readiness, readiness
from lab.domain import Domain
from lab.gateway import LiveGateway
from lab.redis import RedisServer
from tests.support.cast import Console, Integration, make_connection, make_integration, make_person
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db(transaction=True)  # the checks have database connections of their own


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    Readiness.__init__(readiness)
    monkeypatch.setattr(
        "gateway.monitoring.readiness.TIMEOUT_SECONDS", 60.0
    )  # what answers at all does so on a busy machine too


@pytest.fixture
def no_worker(redis_server: RedisServer) -> Iterator[None]:
    """None has given a sign of life."""

    def forget() -> None:
        Redis.from_url(settings.REDIS_URL).delete(workers._HEARTBEATS)

    forget()
    yield
    forget()


@pytest.fixture
def console() -> Console:
    return Console(make_person(may=["directory.view_directoryconnection"]))


def ready(client: Client, **more: Any) -> tuple[int, dict[str, Any]]:
    response = client.get("/health/ready", **more)
    return response.status_code, response.json()


def test_health_asks_nothing(limited: None, client: Client, redis_server: RedisServer) -> None:
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
    assert [check["name"] for check in body["checks"]] == ["database", "migrations", "broker"]


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
    assert (status, body["status"]) == (200, "degraded")
    assert {check["name"]: check["status"] for check in body["checks"]}["broker"] == "unavailable"


def test_without_the_broker_everything_that_does_not_need_it_is_served(
    integration: Integration, ada: UUID, redis_server: RedisServer
) -> None:
    redis_server.pause()
    try:
        assert integration.get(f"/api/ad/users/{ada}").status == 200
        changed = integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}})
        reset = integration.post(f"/api/ad/users/{ada}/reset-password", {"newPassword": "Other-Horse-10"})
    finally:
        redis_server.resume()
    assert changed.status == 200
    assert reset.status == 200, "rate limits are off in this test: nothing else of a reset needs Redis"


def test_unfinished_migrations(client: Client) -> None:
    """New processes that are there before the new tables take no requests."""
    recorder = MigrationRecorder(database)
    name = max(name for app, name in recorder.applied_migrations() if app == "audit")
    recorder.record_unapplied("audit", name)
    try:
        status, body = ready(client)
        assert (status, body["status"]) == (503, "unavailable")
        assert body["checks"][1]["detail"] == "1 migrations are not applied: run `gateway migrate`"
        assert [check["name"] for check in body["checks"]] == ["database", "migrations", "broker"]
    finally:
        recorder.record_applied("audit", name)
    Readiness.__init__(readiness)
    assert ready(client)[0] == 200


def connect_to(url: str, name: str = "nowhere") -> None:
    DirectoryConnection.objects.create(name=name, urls=[url], base_dn="DC=x", bind_dn="CN=x", bind_password="x")


def test_every_directory_away(client: Client) -> None:
    for name in ("nowhere", "nowhere else"):
        connect_to("ldaps://127.0.34.2", name)
    status, body = ready(client)
    assert (status, body["status"]) == (200, "degraded")
    assert {check["name"] for check in body["checks"] if check.get("detail")} == {
        "directory nowhere",
        "directory nowhere else",
    }


def test_one_directory_away_while_another_serves(client: Client, console: Console, domain: Domain) -> None:
    connect_to("ldaps://127.0.34.2")
    make_connection(domain, name="corp")
    status, body = ready(client)
    assert (status, body["status"]) == (200, "degraded")
    assert [check["name"] for check in body["checks"] if check["status"] != "ok"] == ["directory nowhere"]
    assert ready(client, REMOTE_ADDR="192.0.2.1") == (200, {"status": "degraded"})
    assert console.get("/rest/health").body["status"] == "degraded"


def test_what_nobody_foresaw_is_told_as_json(client: Client, domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    make_connection(domain, name="corp")

    def fail(*_: object) -> None:
        raise LookupError("secret inside")

    monkeypatch.setattr("gateway.monitoring.readiness.get_client", fail)
    status, body = ready(client)
    assert (status, body["checks"][-1]["detail"]) == (200, "LookupError")
    monkeypatch.setattr("gateway.monitoring.health.status_of", fail)
    client.raise_request_exception = False
    assert_problem(client.get("/health/ready"), 500, "Server.Error")


@pytest.mark.parametrize("path", ["/health", "/health/ready", "/metrics"])
def test_supervisors_are_never_answered_with_a_page(client: Client, path: str) -> None:
    assert_problem(client.post(path, {"a": "b"}), 405, "Request.MethodNotAllowed")
    assert_problem(client.get(f"{path}/nothing"), 404, "Request.NotFound")


def assert_problem(response: Any, status: int, code: str) -> None:
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    assert response.json()["code"] == code
    assert b"secret inside" not in response.content


def test_what_does_not_answer_is_waited_for_once(
    client: Client, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("Directory", ConnectSeconds=600)  # the question is open until the end of the test
    monkeypatch.setattr("gateway.monitoring.readiness.KEEP_SECONDS", 0.0)
    monkeypatch.setattr("gateway.monitoring.readiness.TIMEOUT_SECONDS", 10.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        connect_to(f"ldaps://127.0.0.1:{silent.getsockname()[1]}")
        asked = []
        for _ in range(2):
            status, body = ready(client)
            assert status == 200
            assert body["checks"][-1]["detail"] == "no answer within 10 s"
            asked.append(readiness._running["directory nowhere"])
        assert asked[0] is asked[1]
        _, deadline = asked[0]
        assert deadline < time.monotonic()


def test_for_people(console: Console, domain: Domain, no_worker: None) -> None:
    make_connection(domain, name="corp")
    given = timezone.now() - timedelta(milliseconds=1)
    workers.send_heartbeat("celery@here")
    body = console.get("/rest/health").body
    assert body["status"] == "ok"
    assert body["checks"] == [
        {"name": name, "status": "ok", "detail": None}
        for name in ("database", "migrations", "broker", "directory corp", "workers")
    ]
    (worker,) = body["workers"]
    assert worker["name"] == "celery@here"
    assert given <= datetime.fromisoformat(worker["seenAt"]) <= timezone.now()


def test_without_a_worker(console: Console, no_worker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(workers, "now", lambda: timezone.now() - timedelta(seconds=31))
        workers.send_heartbeat("celery@gone")
    body = console.get("/rest/health").body
    assert (body["status"], body["workers"]) == ("degraded", [])
    assert body["checks"][-1]["detail"] == "no worker has given a sign of life for 30 s"


def test_with_the_broker_away(console: Console, redis_server: RedisServer) -> None:
    redis_server.pause()
    try:
        body = console.get("/rest/health").body
    finally:
        redis_server.resume()
    assert body["status"] == "degraded"
    assert [check["name"] for check in body["checks"] if check["detail"]] == ["broker"]


def test_a_worker_is_there_until_it_ends(live_gateway: LiveGateway) -> None:
    deadline = time.monotonic() + 120  # its last sign may have been forgotten by the test before
    while not (found := workers.find_workers()) and time.monotonic() < deadline:
        time.sleep(0.1)
    (worker,) = found
    assert worker.name.startswith("celery@")
    live_gateway.worker.stop()
    assert workers.find_workers() == []
    live_gateway.worker.start_and_wait()
    assert [item.name for item in workers.find_workers()] == [worker.name]


def test_health_is_for_who_may_see_directories() -> None:
    answer = Console(make_person(may=["audit.read_log"])).get("/rest/health")
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert make_integration(None).get("/api/health").status == 404
