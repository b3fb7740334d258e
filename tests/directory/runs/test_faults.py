"""Runs when something breaks: workers killed, two at once, the broker or the directory away, rights taken back."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import UUID

import ldap
import pytest
from django.db import connections
from redis import Redis

from active_directory.entry import parse_versions
from audit.models import OperationRecord
from directory.models import DirectoryConnection
from directory.models.runs import AccountResult, Run
from lab.directory import Directory
from lab.gateway import LiveGateway
from lab.proxy import FaultyProxy
from lab.redis import RedisServer
from tests.directory.runs.test_runs import completed, logged
from tests.directory.runs.unit import Unit
from tests.support.cast import Integration, make_integration
from tests.support.database import live_database_url
from tests.support.sql_process import SqlProcess

_LOST = "Connection to broker lost"
_REFUSED = "Trying to reconnect"
_WAITS = "the run waits"


def versions(directory: Directory, accounts: list[UUID]) -> dict[UUID, int]:
    """How often userAccountControl of each account was written."""
    control = 0x90008  # its attid ([MS-ADA3] userAccountControl)
    blobs = {account: directory.read(account, "replPropertyMetaData") for account in accounts}
    return {account: parse_versions(blob["replPropertyMetaData"][0])[control] for account, blob in blobs.items()}


def changes_since(directory: Directory, before: dict[UUID, int]) -> set[float]:
    """How often the accounts were changed since: a set of one for all of them."""
    # A swap raises Samba's version by more than one: what one swap does is measured on an account of its own.
    parent = directory.dn(next(iter(before))).partition(",")[2]
    sample = directory.add_user(parent=parent)
    old = versions(directory, [sample])[sample]
    directory.connection.modify_s(
        directory.dn(sample),
        [(ldap.MOD_DELETE, "userAccountControl", [b"544"]), (ldap.MOD_ADD, "userAccountControl", [b"546"])],
    )
    step = versions(directory, [sample])[sample] - old
    now = versions(directory, list(before))
    return {(now[account] - before[account]) / step for account in before}


def until(condition: Callable[[], Any], *, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def worker_said(worker: LiveGateway, what: str) -> int:
    """How often it says so in its log, which it may be writing just now."""
    return worker.worker.output.count(what)


@pytest.mark.parametrize("moment", ["intents", "results"])
def test_a_killed_worker_s_run_is_completed(
    unit: Unit, directory: Directory, worker: LiveGateway, integration: Integration, moment: str
) -> None:
    users = unit.add_users(100)
    before = versions(directory, users)

    started = unit.run(integration, {"kinds": ["user"]}, Prefer="respond-async")
    seen = (
        OperationRecord.objects.filter(run_id=started.body["runId"]) if moment == "intents" else AccountResult.objects
    )
    until(seen.exists)
    time.sleep(random.uniform(0, 0.08))  # noqa: S311 - any moment will do
    worker.worker.kill()
    assert Run.objects.get().state in ("running", "completed")  # all results may be there and the end not yet

    back = time.monotonic()
    worker.worker.start_and_wait()
    body = completed(integration, started)

    assert time.monotonic() - back < 300, "an hour is what Redis would have waited"
    assert (body["succeeded"], body["unchanged"], body["failed"]) == (100, 0, 0)
    assert unit.count_enabled(users) == 0
    assert changes_since(directory, before) == {1}
    assert logged(body["runId"]) == dict.fromkeys(users, "succeeded")


def test_two_runs_at_once_change_each_account_once(
    unit: Unit, directory: Directory, worker: LiveGateway, integration: Integration
) -> None:
    users = unit.add_users(60)
    before = versions(directory, users)
    answers = []

    def run() -> None:
        try:
            answers.append(unit.run(integration, {"kinds": ["user"]}))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert sum(answer.body["succeeded"] for answer in answers) == 60
    assert sum(answer.body["unchanged"] for answer in answers) == 120
    assert changes_since(directory, before) == {1}
    assert OperationRecord.objects.filter(run_id__isnull=False).count() == 60


def test_without_a_broker_nothing_is_left_behind(
    unit: Unit, integration: Integration, redis_server: RedisServer
) -> None:
    users = unit.add_users(2)
    redis_server.stop()
    try:
        answer = unit.run(integration, {"kinds": ["user"]})
    finally:
        redis_server.start_and_wait()
    assert (answer.status, answer.code) == (503, "Runs.Unavailable")
    assert not Run.objects.exists()
    assert unit.count_enabled(users) == 2


def test_a_restarted_broker_is_found_again(
    unit: Unit, worker: LiveGateway, integration: Integration, redis_server: RedisServer
) -> None:
    unit.add_users(2)
    assert unit.run(integration, {"kinds": ["user"]}).status == 200
    redis_server.stop()
    redis_server.start_and_wait()
    answer = unit.run(integration, {"kinds": ["user"]}, "enable")
    assert (answer.status, answer.body["succeeded"]) == (200, 2)


def test_a_broker_lost_below_a_run_ends_no_worker(
    unit: Unit,
    directory: Directory,
    worker: LiveGateway,
    directory_proxy: FaultyProxy,
    through_proxy: Integration,
    redis_server: RedisServer,
) -> None:
    """Its task cannot be acknowledged any more, neither when the connection is closed nor when it ends."""
    users = unit.add_users(60)
    before = versions(directory, users)
    lost = worker_said(worker, _LOST)
    started = unit.run(through_proxy, {"kinds": ["user"]}, Prefer="respond-async")
    until(OperationRecord.objects.filter(run_id=started.body["runId"]).exists)
    directory_proxy.cut()
    redis_server.stop()
    until(lambda: worker_said(worker, _LOST) > lost)
    redis_server.start_and_wait()
    directory_proxy.restore()

    assert completed(through_proxy, started)["succeeded"] == 60
    assert changes_since(directory, before) == {1}
    worker.worker.start_and_wait()  # which says so if it ended
    assert unit.run(through_proxy, {"kinds": ["user"]}).status == 200


_TROUBLES = {
    "its memory is full": ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    "its replicas are gone": ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    "it is no primary any more": ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
}


@pytest.mark.parametrize("trouble", _TROUBLES)
def test_a_worker_outlives_a_broker_that_answers_with_errors(
    unit: Unit, worker: LiveGateway, integration: Integration, redis_server: RedisServer, trouble: str
) -> None:
    begins, ends = _TROUBLES[trouble]
    unit.add_users(2)
    refused = worker_said(worker, _REFUSED)

    def is_refused_twice() -> bool:
        worker.worker.start_and_wait()  # which says so if it ended
        return worker_said(worker, _REFUSED) >= refused + 2

    with Redis.from_url(redis_server.url) as redis:
        redis.execute_command(*begins.split())
        try:
            redis.client_kill_filter(_type="normal", skipme=True)
            until(is_refused_twice)
        finally:
            redis.execute_command(*ends.split())
    answer = unit.run(integration, {"kinds": ["user"]})
    assert (answer.status, answer.body["succeeded"]) == (200, 2)


def test_a_worker_outlives_the_end_of_what_it_waits_for(
    unit: Unit, worker: LiveGateway, integration: Integration, redis_server: RedisServer
) -> None:
    """Redis ends what waits for a queue with an error when it becomes a replica: a fail-over in order."""
    unit.add_users(2)
    lost = worker_said(worker, _LOST)
    with Redis.from_url(redis_server.url) as redis:

        def is_lost() -> bool:
            for client in redis.client_list():
                if client["cmd"] == "brpop":
                    redis.execute_command("CLIENT", "UNBLOCK", client["id"], "ERROR")
            worker.worker.start_and_wait()  # which says so if it ended
            return worker_said(worker, _LOST) > lost

        until(is_lost)
    answer = unit.run(integration, {"kinds": ["user"]})
    assert (answer.status, answer.body["succeeded"]) == (200, 2)


def test_a_run_waits_for_the_directory(
    unit: Unit,
    directory: Directory,
    worker: LiveGateway,
    directory_proxy: FaultyProxy,
    through_proxy: Integration,
) -> None:
    users = unit.add_users(60)
    before = versions(directory, users)
    waits = worker_said(worker, _WAITS)
    with closing(SqlProcess(live_database_url())) as elsewhere:  # holds the worker up where it notes the first results
        elsewhere.execute("BEGIN")
        elsewhere.execute(f"LOCK TABLE {AccountResult._meta.db_table} IN EXCLUSIVE MODE")
        started = unit.run(through_proxy, {"kinds": ["user"]}, Prefer="respond-async")
        until(OperationRecord.objects.filter(run_id=started.body["runId"]).exists)
        directory_proxy.cut()
        elsewhere.execute("COMMIT")
    until(lambda: worker_said(worker, _WAITS) > waits)
    assert Run.objects.get().state == "running"

    directory_proxy.restore()
    body = completed(through_proxy, started)

    assert (body["succeeded"], body["failed"]) == (60, 0)
    assert changes_since(directory, before) == {1}
    assert logged(body["runId"]) == dict.fromkeys(users, "succeeded")


def test_lost_answers_are_looked_up(
    unit: Unit,
    directory: Directory,
    worker: LiveGateway,
    directory_proxy: FaultyProxy,
    through_proxy: Integration,
) -> None:
    users = unit.add_users(40)
    before = versions(directory, users)
    started = unit.run(through_proxy, {"kinds": ["user"]}, Prefer="respond-async")
    until(OperationRecord.objects.filter(run_id=started.body["runId"]).exists)
    broken = directory_proxy.broken
    directory_proxy.lose_answer()
    until(lambda: directory_proxy.broken >= broken + 3 or Run.objects.get().state == "completed")
    directory_proxy.restore()
    body = completed(through_proxy, started)
    assert body["succeeded"] == 40
    assert changes_since(directory, before) == {1}
    assert logged(body["runId"]) == dict.fromkeys(users, "succeeded")


@pytest.mark.parametrize("taken", ["permission", "key"])
def test_rights_taken_back_end_a_waiting_run(
    unit: Unit, live_gateway: LiveGateway, connection: DirectoryConnection, integration: Integration, taken: str
) -> None:
    users = unit.add_users(2)
    live_gateway.worker.kill()
    started = unit.run(integration, {"kinds": ["user"]}, Prefer="respond-async")
    if taken == "permission":
        integration.key.role.permissions.remove(integration.key.role.permissions.get(codename="disable_account"))
    else:
        integration.key.delete()
    live_gateway.worker.start_and_wait()
    reader = make_integration(connection)
    body = completed(reader, started)
    assert (body["succeeded"], body["failed"]) == (0, 2)
    assert {item["problem"]["code"] for item in body["results"]} == {"Auth.Forbidden"}
    assert unit.count_enabled(users) == 2
