"""How much the log holds, through the console's address."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from audit import daily_counts, log
from audit.chain.seals import mac_of
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.call import Call
from core.database.time_limit import QueryTookTooLong, time_limit
from directory.lookup import access
from operations.log import operations as operations_log
from tests.approvals.proposals import hold
from tests.audit.calls import CALL, DIRECTORY, make_call
from tests.support.cast import Console, make_integration, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

PATH = "/rest/operations/statistics"
NONE = {"succeeded": 0, "failed": 0, "queued": 0, "pending": 0, "unknown": 0}


@pytest.fixture
def noon(within_a_day: None, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """It is noon, so that no test runs over midnight; the log's own clock goes on."""
    moment = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    monkeypatch.setattr(timezone, "now", lambda: moment)
    return moment


@pytest.fixture
def console(noon: datetime) -> Console:
    """Signed in at noon, for a session of another hour may be over by then."""
    return Console(make_person(may=["audit.read_log"]))


def logged(call: Call = CALL, *, at: datetime, operation: str = "users.update", dn: str = "", **facts: Any) -> None:
    """A record of that moment, made as if it were one of now: the database takes no other `at` later."""
    target = log.TargetRef(id=uuid4(), kind="user", distinguished_name=dn)
    fields = {"outcome": "succeeded", "target": target, **facts}
    made = log._facts(call, operation=operation, **fields) | {"at": at}
    OperationRecord(**made | {"mac": mac_of(made)}).save(force_insert=True)


def by_key(name: str | None) -> Call:
    return make_call(credential=CALL.credential.__class__(kind=CALL.credential.kind, id="k", name=name))


def test_changes_of_each_day(console: Console, noon: datetime) -> None:
    midnight = noon.replace(hour=0)
    for at, outcome in (
        (noon, "succeeded"),
        (noon, "succeeded"),
        (midnight, "failed"),
        (midnight - timedelta(microseconds=1), "unknown"),
        (midnight - timedelta(days=13, microseconds=1), "succeeded"),
    ):
        logged(at=at, outcome=outcome)
    logged(at=midnight - timedelta(days=13), outcome="queued", change_request_id=hold().pk)
    logged(at=midnight - timedelta(days=13), outcome="queued", change_request_id=uuid4())
    logged(at=noon, operation="users.search")
    body = console.get(PATH).body
    assert body["since"] == f"{midnight - timedelta(days=13):%Y-%m-%dT00:00:00Z}"
    days = {item.pop("day"): item for item in body["days"]}
    assert list(days) == [f"{noon - timedelta(days=ago):%Y-%m-%d}" for ago in range(13, -1, -1)]
    assert {day: counts for day, counts in days.items() if counts != NONE} == {
        f"{noon - timedelta(days=13):%Y-%m-%d}": NONE | {"queued": 1},
        f"{noon - timedelta(days=1):%Y-%m-%d}": NONE | {"unknown": 1},
        f"{noon:%Y-%m-%d}": NONE | {"succeeded": 2, "failed": 1},
    }


@pytest.mark.parametrize("days", [1, 90])
def test_as_many_days_as_asked_for(console: Console, noon: datetime, days: int) -> None:
    first = noon.replace(hour=0) - timedelta(days=days - 1)
    logged(at=first)
    logged(at=first - timedelta(microseconds=1))
    body = console.get(f"{PATH}?days={days}").body
    assert len(body["days"]) == days
    assert sum(item["succeeded"] for item in body["days"]) == 1
    assert [item["operations"] for item in body["keys"]] == [1]


@pytest.mark.parametrize("days", ["0", "91", "two"])
def test_other_days_are_refused(console: Console, days: str) -> None:
    answer = console.get(f"{PATH}?days={days}")
    assert (answer.status, answer.code) == (400, "Request.Invalid")


def test_operations_by_key(console: Console, noon: datetime) -> None:
    for number in range(12):
        for _ in range(20 - number):
            logged(by_key(f"key {number:02}"), at=noon, operation="users.search")
    logged(by_key("key 00"), at=noon, outcome="failed", code="Auth.Forbidden")
    logged(by_key("key 00"), at=noon, outcome="failed", code="AD.Object.NotFound")
    logged(by_key("key 11"), at=noon, outcome="failed", code="AD.Object.NotFound")
    logged(by_key(None), at=noon, outcome="failed", code="Auth.Forbidden")
    body = console.get(PATH).body
    assert [item["keyName"] for item in body["keys"]] == [f"key {number:02}" for number in range(10)]
    assert body["keys"][0] == {"keyName": "key 00", "operations": 22, "failed": 2, "forbidden": 1}
    assert body["keys"][1] == {"keyName": "key 01", "operations": 19, "failed": 0, "forbidden": 0}
    assert body["otherKeys"] == {"keyName": None, "operations": 20, "failed": 1, "forbidden": 0}
    assert body["persons"] == {"keyName": None, "operations": 1, "failed": 1, "forbidden": 1}


def test_nothing(console: Console) -> None:
    body = console.get(PATH).body
    assert {tuple(item.values())[1:] for item in body["days"]} == {(0, 0, 0, 0, 0)}
    assert body["keys"] == []
    assert body["otherKeys"]["operations"] == body["persons"]["operations"] == 0


def test_a_role_with_scopes_counts_targets_inside_them_only(monkeypatch: pytest.MonkeyPatch, noon: datetime) -> None:
    monkeypatch.setattr(access, "scope_bases", lambda _: ("OU=Sales,DC=corp",))
    logged(at=noon, dn="CN=Ada,OU=Sales,DC=corp")
    logged(at=noon, dn="CN=Bob,OU=Lab,DC=corp")
    confined = make_call(scopes=((uuid4(),),), directory=DIRECTORY)
    counted = operations_log.read_statistics(confined, query=operations_log.ReadStatistics())
    assert counted["days"][-1]["succeeded"] == 1
    assert [item["operations"] for item in counted["keys"]] == [1]
    assert counted["countedFrom"] == counted["since"]
    logged(at=noon - timedelta(hours=1, microseconds=1), operation="users.search", dn="CN=Ada,OU=Sales,DC=corp")
    logged(at=noon - timedelta(days=3), dn="CN=Ada,OU=Sales,DC=corp")
    whole = operations_log.read_statistics(confined, query=operations_log.ReadStatistics())
    assert [len(whole["days"]), whole["days"][-4]["succeeded"]] == [14, 1]
    assert [item["operations"] for item in whole["keys"]] == [3]
    limits = iter([time_limit] * 5)  # there is time for five periods

    def until_it_is_over(seconds: float) -> Any:
        if (limit := next(limits, None)) is None:
            raise QueryTookTooLong
        return limit(seconds)

    monkeypatch.setattr(daily_counts, "time_limit", until_it_is_over)
    counted = operations_log.read_statistics(confined, query=operations_log.ReadStatistics())
    assert counted["countedFrom"] == f"{noon - timedelta(hours=31):%Y-%m-%dT%H:00:00Z}"
    assert [item["day"] for item in counted["days"]] == [f"{noon - timedelta(days=ago):%Y-%m-%d}" for ago in (1, 0)]
    assert [item["operations"] for item in counted["keys"]] == [2]
    with pytest.raises(QueryTookTooLong):
        operations_log.read_statistics(confined, query=operations_log.ReadStatistics())


def test_the_log_without_reads(console: Console) -> None:
    log.record_intent(CALL, log.Intent(operation="users.update"))
    log.record_read(CALL, operation="users.search")
    target = log.TargetRef(id=None, kind="roles", distinguished_name="Help desk")
    log.record_administration(CALL, operation="roles.create", target=target, changes=[])
    reads.flush()
    found = [item["operation"] for item in console.get("/rest/operations?onlyChanges=true").body["items"]]
    assert [name for name in found if name != "session.create"] == ["roles.create", "users.update"]


def test_only_in_the_console_and_for_who_may_read_the_log() -> None:
    answer = Console(make_person(may=["directory.read_object"])).get(PATH)
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert make_integration(None, may=["audit.read_log"]).get("/api/operations/statistics").status == 404
