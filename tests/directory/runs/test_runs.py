"""Runs as they go when nothing is in the way: by a real worker, over HTTP, seen in the directory and in the log."""

import threading
import time
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import OperationRecord
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from directory.runs import requests
from directory.runs.requests import MAX_WAIT_SECONDS, announce_completion, await_completion
from lab.directory import Directory
from lab.gateway import LiveGateway
from lab.redis import RedisServer
from tests.directory.runs.unit import Unit
from tests.directory.supervised import approve_only
from tests.support.cast import Answer, Integration, make_integration


def completed(integration: Integration, started: Answer, *, seconds: float = 300) -> dict:
    """The run a 202 speaks of, when it is completed."""
    assert started.status == 202, started
    deadline = time.monotonic() + seconds
    while (answer := integration.get(started.headers["Location"])).body["state"] != "completed":
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)
    return answer.body


def logged(run_id: str) -> dict[UUID, str]:
    """The outcome of each account's record; each account has one at most."""
    records = list(OperationRecord.objects.filter(run_id=run_id))
    assert len({record.target_id for record in records}) == len(records)
    return {record.target_id: record.outcome for record in records}


def test_it_works(unit: Unit, worker: LiveGateway, integration: Integration) -> None:
    users = unit.add_users(60)
    plan_id = unit.plan(integration).body["planId"]

    answer = unit.run(integration, {"planId": plan_id})

    assert answer.status == 200, answer
    assert {name: value for name, value in answer.body.items() if name not in ("runId", "results")} == {
        "action": "disable",
        "state": "completed",
        "total": 60,
        "succeeded": 60,
        "unchanged": 0,
        "failed": 0,
    }
    assert unit.count_enabled(users) == 0
    assert logged(answer.body["runId"]) == dict.fromkeys(users, "succeeded")
    record = OperationRecord.objects.filter(run_id=answer.body["runId"]).first()
    assert (record.operation, record.surface) == ("organization-units.disable-accounts", "worker")
    assert record.changes == [{"attribute": "userAccountControl", "before": ["544"], "after": ["546"]}]
    assert record.key_name == integration.key.name

    again = unit.run(integration, {"accounts": [str(user) for user in users[:2]]}, "enable")
    assert (again.status, again.body["succeeded"]) == (200, 2)
    assert unit.count_enabled(users) == 2


def test_who_waits_for_a_run_hears_of_its_end(unit: Unit, worker: LiveGateway, integration: Integration) -> None:
    unit.add_users(20)
    begun = time.monotonic()
    with CaptureQueriesContext(connection) as queries:
        assert unit.run(integration, {"kinds": ["user"]}).status == 200
    looks = [query["sql"] for query in queries if 'FROM "directory_run"' in query["sql"]]
    assert len(looks) <= 4 + (time.monotonic() - begun) / MAX_WAIT_SECONDS


class TestAnnouncements:
    def test_it_works(self, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(requests, "MAX_WAIT_SECONDS", 120)
        monkeypatch.setattr(requests, "_ANSWER_SECONDS", 60)
        run = uuid4()
        begun = time.monotonic()
        announce_completion(run)
        await_completion(run, 120)
        threading.Timer(0.1, announce_completion, [run]).start()
        await_completion(run, 120)
        assert time.monotonic() - begun < 120

    def test_nobody_waits_for_ever(self, redis_server: RedisServer) -> None:
        begun = time.monotonic()
        await_completion(uuid4(), 0.2)
        assert time.monotonic() - begun >= 0.2

    def test_without_redis_the_database_is_looked_at(self, settings: Any) -> None:
        settings.REDIS_URL = "unix:///nowhere/redis.sock"
        announce_completion(uuid4())
        begun = time.monotonic()
        await_completion(uuid4(), 30)
        assert time.monotonic() - begun < 30


def test_what_fails_fails_by_itself(
    unit: Unit, directory: Directory, worker: LiveGateway, integration: Integration
) -> None:
    user, disabled = unit.add_users(1)[0], unit.add_users(1, enabled=False)[0]
    (administrator,) = unit.add_users(1)
    directory.add_values(f"CN=Domain Admins,CN=Users,{directory.base_dn}", member=directory.dn(administrator))
    outsider = directory.guid(directory.base_dn)
    nobody = uuid4()

    answer = unit.run(
        integration, {"accounts": [str(guid) for guid in (user, disabled, administrator, outsider, nobody)]}
    )

    assert answer.status == 207
    results = answer.body["results"]
    assert [UUID(item["id"]) for item in results] == [user, disabled, administrator, outsider, nobody]
    assert [item["status"] for item in results] == ["succeeded", "unchanged", "failed", "failed", "failed"]
    assert [item["problem"] and item["problem"]["code"] for item in results] == [
        *(None, None, "Auth.Forbidden", "AD.Object.NotFound", "AD.Object.NotFound")
    ]
    assert results[2]["distinguishedName"] == directory.dn(administrator)
    assert results[3]["distinguishedName"] is None
    assert not directory.is_enabled(user)
    assert directory.is_enabled(administrator)
    assert logged(answer.body["runId"]) == {
        user: "succeeded",
        administrator: "failed",
        outsider: "failed",
        nobody: "failed",
    }


def test_a_run_can_be_followed(
    unit: Unit, worker: LiveGateway, connection: DirectoryConnection, integration: Integration
) -> None:
    unit.add_users(3)
    started = unit.run(integration, {"kinds": ["user"]}, Prefer="respond-async")
    assert started.headers["Location"] == f"/api/ad/runs/{started.body['runId']}"
    assert started.headers["Retry-After"] == "2"

    path = started.headers["Location"]
    while (read := integration.get(f"{path}?wait=60")).body["state"] != "completed":
        assert read.headers["Retry-After"] == "2"
    assert read.body["succeeded"] == 3
    assert "Retry-After" not in read.headers
    assert integration.get(f"{path}?wait=61").body["errors"][0]["parameter"] == "wait"
    assert make_integration(connection, may=["directory.run_accounts"]).get(path).status == 200
    stranger = make_integration(connection, may=["directory.read_object"]).get(path)
    assert (stranger.status, stranger.code) == (404, "Request.NotFound")
    elsewhere = make_integration(connection, scopes=[uuid4()]).get(path)
    assert elsewhere.status == 404
    assert integration.get(f"/api/ad/runs/{uuid4()}").status == 404


def test_an_approved_run(unit: Unit, worker: LiveGateway, connection: DirectoryConnection) -> None:
    """The workers themselves take the change from the approval to its end."""
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    users = unit.add_users(3)
    request = approve_only(unit.run(careful, {"kinds": ["user"]}))
    deadline = time.monotonic() + 300
    while (body := careful.get(f"/api/change-requests/{request.id}").body)["status"] in ("approved", "applying"):
        assert time.monotonic() < deadline, body
        time.sleep(0.05)
    assert body["status"] == "applied"
    run = careful.get(f"/api/ad/runs/{body['runId']}").body
    assert (run["state"], run["succeeded"]) == ("completed", 3)
    assert unit.count_enabled(users) == 0


def test_an_approved_run_in_which_an_account_failed(
    unit: Unit, worker: LiveGateway, connection: DirectoryConnection
) -> None:
    """It is never called applied or done."""
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    users = unit.add_users(2)
    accounts = [*map(str, users), str(uuid4())]
    request = approve_only(unit.run(careful, {"accounts": accounts}))
    deadline = time.monotonic() + 300
    while (body := careful.get(f"/api/change-requests/{request.id}").body)["status"] in ("approved", "applying"):
        assert time.monotonic() < deadline, body
        time.sleep(0.05)
    assert body["status"] == "partly-failed", body
    assert body["problem"]["code"] == "Approvals.PartlyFailed"
    assert body["problem"]["detail"] == "Of 3 accounts 1 failed."
    run = careful.get(f"/api/ad/runs/{body['runId']}").body
    assert (run["succeeded"], run["failed"]) == (2, 1)
    assert unit.count_enabled(users) == 0
    assert len(careful.get("/api/change-requests?status=partly-failed").body["items"]) == 1
