"""What Prometheus is told: of each domain controller, of what waits and of what ends soon."""

import json
import re
import ssl
import time
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from cryptography import x509
from django.test import Client
from django.utils import timezone
from redis import Redis

from audit.models import WebhookDelivery, WebhookEndpoint
from audit.read_buffer import reads
from gateway.management import backups
from gateway.monitoring import certificates, metrics, workers
from gateway.monitoring.readiness import Readiness, readiness
from lab.directory import Directory
from lab.domain import Domain
from lab.proxy import FaultyProxy
from lab.redis import RedisServer
from lab.services import free_port
from tests.gateway.middleware.test_request_id import logging_as
from tests.support.cast import Console, make_connection, make_integration, make_person
from tests.support.database import gateway_at

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

    def counts() -> tuple[float, float, float]:
        searches = value(client, "gateway_directory_seconds_count", server=server, kind="search")
        failures = value(client, "gateway_directory_failures_total", server=server)
        return searches, value(client, "gateway_directory_wait_seconds_count"), failures

    searches, waits, failures = counts()  # an earlier test's server may have had the same port
    assert key.get("/api/ad/users?q=Administrator").status == 200
    more_searches, more_waits, _ = counts()
    assert more_searches > searches
    assert more_waits - waits >= more_searches - searches
    directory_proxy.close()
    assert key.get("/api/ad/users?q=Administrator").status == 503
    assert counts()[2] > failures


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
    Redis.from_url(redis_server.url).delete(workers._HEARTBEATS)  # of workers that a test before this one has killed
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


def test_webhooks(client: Client, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many an endpoint that is away has left, a scrape counts only so many."""
    endpoint = WebhookEndpoint.objects.create(name="away", url="https://away.test/")
    for state, count in (("waiting", 4), ("dead", 2), ("delivered", 1)):
        for _ in range(count):
            WebhookDelivery.objects.create(endpoint=endpoint, event="test", body="{}", state=state)
    WebhookDelivery.objects.filter(pk=WebhookDelivery.objects.filter(state="waiting").latest("id").pk).update(
        created_at=timezone.now() - timedelta(hours=1)
    )
    monkeypatch.setattr(metrics, "_MOST_COUNTED", 3)
    told = measured(client)
    assert (told["gateway_webhook_deliveries_waiting"], told["gateway_webhook_deliveries_dead"]) == (3, 2)
    assert 3600 <= told["gateway_webhook_oldest_seconds"] < 3700


@pytest.fixture
def not_seen_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are looked at anew, and what answers at all does so on a busy machine too.

    Otherwise the end of a certificate counts that an earlier test's server had: each start gives it another one.
    """
    monkeypatch.setattr("gateway.monitoring.certificates._TIMEOUT_SECONDS", 60.0)
    fresh = certificates.Certificates()
    for place in ("gateway.monitoring.metrics", "operations.gateway.health"):
        monkeypatch.setattr(f"{place}.certificates", fresh)
        monkeypatch.setattr(f"{place}._CERTIFICATE_WAIT_SECONDS", 120.0)


def test_certificates_of_domain_controllers(
    not_seen_yet: None, client: Client, redis_server: RedisServer, domain: Domain
) -> None:
    """As an independent client sees them, by LDAPS and by StartTLS; who is away takes nothing from the others."""
    plain = f"ldap://{domain.controller.address}"
    make_connection(domain, name="Corp", urls=[domain.url, plain, "ldaps://127.0.0.1:1"], start_tls=True)
    shown = ssl.get_server_certificate((domain.controller.address, 636))
    ends = x509.load_pem_x509_certificate(shown.encode()).not_valid_after_utc.timestamp()
    name = "gateway_directory_certificate_expiry_timestamp_seconds"
    assert value(client, name, server=domain.url) == ends
    assert value(client, name, server=plain) == ends
    assert value(client, name, server="ldaps://127.0.0.1:1") == 0


def test_health_tells_of_certificates(
    not_seen_yet: None, redis_server: RedisServer, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_connection(domain, name="Corp")
    console = Console(make_person(superuser=True))
    told = console.get("/rest/health").body["certificates"]
    assert {(each["directory"], each["kind"]) for each in told} == {("Corp", "authority"), ("Corp", "server")}
    assert not any(each["endsSoon"] for each in told)
    assert b"Ends soon" not in console.get("/console/home/health").body
    monkeypatch.setattr(certificates, "WARN_BEFORE", timedelta(days=100_000))
    page = console.get("/console/home/health").body.decode()
    assert f"Certificate of {domain.url}" in page
    assert "Ends soon" in page


@pytest.mark.django_db(transaction=True)
def test_workers(client: Client, redis_server: RedisServer, tmp_path: Path) -> None:
    """A web server tells of the workers of its host; and a worker by itself, of itself alone, where it is told to."""
    address = f"127.0.0.1:{free_port()}"
    worker = gateway_at(tmp_path, {"Metrics__WorkerAddress": address})
    worker.worker.start_and_wait()
    try:
        name, labels = "gateway_tasks_total", {"task": "gateway.tasks.seal_log", "outcome": "done", "process": "worker"}
        deadline = time.monotonic() + 120
        while value(client, name, **labels) == 0:
            assert time.monotonic() < deadline, measured(client).keys()
            time.sleep(0.1)
        assert value(client, "gateway_process_resident_bytes", process="worker") > 0
        told = urlopen(f"http://{address}/metrics").read().decode()
        assert 'gateway_task_seconds_count{process="worker",task="gateway.tasks.seal_log"}' in told
        assert "gateway_log_open_records" not in told
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://{address}/")
    finally:
        worker.stop()
    assert value(client, name, process="worker") == 0


def test_probes_are_no_requests(client: Client, redis_server: RedisServer) -> None:
    """They come all the time and succeed: among them nobody would see that everything else fails."""
    before = value(client, "gateway_requests_total")
    for path in ("/health", "/health/ready", "/metrics", "/health"):
        client.get(path)
    assert value(client, "gateway_requests_total") == before
    client.get("/api/me")
    assert value(client, "gateway_requests_total") == before + 1


def test_one_id_leads_from_the_access_line_to_the_record_and_the_domain_controller(
    domain: Domain, directory: Directory, organizational_unit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is asked for, also where threads help: the proxy's log has the same id (tests/deploy)."""
    key = make_integration(make_connection(domain))
    group = directory.add_group(parent=organizational_unit)
    users = [directory.add_user(parent=organizational_unit) for _ in range(12)]
    titles = {"items": [{"id": str(user), "replace": {"title": "Countess"}} for user in users]}
    asked: dict[str, tuple[str, str, Any]] = {
        "users.search": ("GET", "/api/ad/users?q=Administrator", None),
        "users.update": ("PATCH", f"/api/ad/users/{users[0]}", {"replace": {"title": "Clerk"}}),
        "users.update batch": ("POST", "/api/ad/users/batch/update", titles),
        "groups.change-members": ("POST", f"/api/ad/groups/{group}/members", {"add": [str(user) for user in users]}),
    }
    for name, request in asked.items():
        id, operation = name.replace(" ", "-"), name.partition(" ")[0]
        with logging_as("json", level="DEBUG"):
            assert key.call(*request, **{"X-Request-Id": id}).status == 200
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        (access,) = [line for line in lines if line["logger"] == "gateway.access"]
        wanted = {"request_id": id, "operation": operation, "key": key.key.name, "owner": key.key.owner.username}
        assert wanted.items() <= access.items()
        to_directory = [line for line in lines if line["logger"] == "gateway.directory"]
        # What is read in the background, for all who ask later, is no request's.
        asked_for = [line for line in to_directory if line["kind"] == "write" or "request_id" in line]
        assert {line.get("request_id") for line in asked_for} == {id}
        assert ("search" if operation == "users.search" else "write") in {line["kind"] for line in asked_for}
        reads.flush()
        records = key.get(f"/api/operations?requestId={id}").body["items"]
        assert {record["operation"] for record in records} == {operation}
        capsys.readouterr()


def test_the_last_backup(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert value(client, "gateway_last_backup_timestamp_seconds") == 0
    monkeypatch.setattr(backups, "_dump", lambda file: file.touch())
    made = backups.make(tmp_path)
    assert value(client, "gateway_last_backup_timestamp_seconds") == pytest.approx(made.stat().st_mtime, abs=60)


def test_a_worker_that_is_lost_and_one_that_ends(
    client: Client, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says that it ends is missed by nobody."""
    with monkeypatch.context() as earlier:
        earlier.setattr(workers, "now", lambda: timezone.now() - timedelta(seconds=300))
        for name in ("celery@lost", "celery@stopped", "celery@back"):
            workers.send_heartbeat(name)
    workers.remove_heartbeat("celery@stopped")
    workers.send_heartbeat("celery@back")
    try:
        lost = {name: seconds for name, seconds in measured(client).items() if "worker_lost" in name}
        assert lost == {'gateway_worker_lost_seconds{worker="celery@lost"}': pytest.approx(300, abs=60)}
        assert "celery@lost" not in {worker.name for worker in workers.find_workers()}
    finally:
        for name in ("celery@lost", "celery@back"):
            workers.remove_heartbeat(name)


def test_what_the_gateway_works_with(client: Client, redis_server: RedisServer) -> None:
    """At times when nobody asks for anything, this alone tells that everything would fail."""
    readiness.checks()
    assert value(client, "gateway_check_ok", check="database") == 1
    redis_server.pause()
    try:
        Readiness.__init__(readiness)
        readiness.checks()
        assert value(client, "gateway_check_ok", check="broker") == 0
    finally:
        redis_server.resume()
        Readiness.__init__(readiness)
