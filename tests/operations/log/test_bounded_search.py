"""Searches of the log that find little: each page ends after a while and says how far it has come."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import BooleanField, Func
from django.test.utils import CaptureQueriesContext
from django.utils.dateparse import parse_datetime

from audit import bounded_search, daily_counts, log, log_queries
from audit.admin import OperationRecordAdmin
from audit.identifiers import identifier_bounds
from audit.models import OperationRecord
from core import paging
from core.database import time_limit
from keys.models import Person
from tests.audit.calls import CALL
from tests.console.pages import text_of
from tests.support.cast import Console, make_integration, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

_SECONDS_OF_A_RECORD = 0.005


class _TakesTime(Func):
    """A condition that every record meets, at a cost."""

    output_field = BooleanField()
    arity = 1

    def as_postgresql(self, compiler: Any, _: Any) -> Any:
        return f"(pg_sleep({_SECONDS_OF_A_RECORD})::text = '')", []

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        connection.connection.create_function("take_time", 1, lambda _: time.sleep(_SECONDS_OF_A_RECORD) or 1)
        sql, given = compiler.compile(self.source_expressions[0])
        return f"(take_time({sql}) = 1)", given


@pytest.fixture
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches for words take as long as in a log of millions, and stop as early."""
    find = log_queries.filter_by_words

    def find_slowly(records: Any, text: str, **more: Any) -> Any:
        return find(records.filter(_TakesTime("id")), text, **more)

    monkeypatch.setattr(log_queries, "filter_by_words", find_slowly)
    monkeypatch.setattr(time_limit, "_STEPS", 1)
    monkeypatch.setattr(bounded_search, "SECONDS", 0.05)
    monkeypatch.setattr(bounded_search, "_SECONDS_AS_A_WHOLE", 0.02)
    monkeypatch.setattr(bounded_search, "_SECONDS_OF_A_PERIOD", 0.05)
    monkeypatch.setattr(paging, "_STREAMED_AT_ONCE", 3)


def write(count: int, *, matching: int) -> list[str]:
    """Records of the last hours, five minutes apart; return those of every so many, newest first."""
    template = log.record_refusal(CALL, operation="users.delete", code="X")
    facts = {field.attname: getattr(template, field.attname) for field in template._meta.concrete_fields}
    now, made = datetime.now(UTC), []
    for number in range(count):
        at = now - timedelta(minutes=5 * number + 1)
        name = "CN=Zebra" if number % matching == matching - 1 else "CN=Horse"
        made.append(OperationRecord(**facts | {"id": identifier_bounds(at)[1], "at": at, "target_dn": f"{name},DC=x"}))
    OperationRecord.objects.bulk_create(made)
    return [str(record.id) for record in made if record.target_dn == "CN=Zebra,DC=x"]


@pytest.mark.usefixtures("_slow")
def test_it_works() -> None:
    expected = write(30, matching=9)
    console = Console(make_person(may=["audit.read_log"]))
    found, moments, cursor = [], [], ""
    while True:
        page = console.get(f"/rest/operations?q=zebra&pageSize=2{cursor}").body
        found += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        if page["searchedBackTo"] is None:
            assert len(page["items"]) == 2
        else:
            moments.append(parse_datetime(page["searchedBackTo"]))
        cursor = f"&cursor={page['nextCursor']}"
    assert found == expected
    assert page["searchedBackTo"] is None
    assert moments
    assert moments == sorted(moments, reverse=True)
    auditor = make_integration(None, may=["audit.read_log"])
    headers = {"X-API-Key": auditor.value, "Accept": "application/x-ndjson"}
    stream: Any = auditor.client.get("/api/operations?q=zebra", headers=headers)
    assert b"".join(stream.streaming_content).count(b"\n") == len(expected)
    text = text_of(console.get("/console/log/?q=unicorn&from=2020-01-01T00:00"))
    assert "Nothing found so far" in text
    assert "Searched back to" in text
    assert "Search on" in text
    assert "matches these filters" not in text


def test_what_is_found_at_once_is_searched_to_the_end() -> None:
    expected = write(5, matching=2)
    console = Console(make_person(may=["audit.read_log"]))
    page = console.get("/rest/operations?q=zebra").body
    assert [item["id"] for item in page["items"]] == expected
    assert (page["nextCursor"], page["searchedBackTo"]) == (None, None)


def test_conditions_that_no_record_meets_together() -> None:
    write(5, matching=2)
    console = Console(make_person(may=["audit.read_log"]))
    for query, count in (("owner=ada&keyName=none", 0), ("owner=ada&keyName=crm&outcome=failed", 6)):
        assert len(console.get(f"/rest/operations?{query}").body["items"]) == count


@pytest.mark.usefixtures("_slow")
def test_other_reads_from_the_web_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    write(20, matching=2)
    monkeypatch.setattr(time_limit, "WEB_SECONDS", 0.05)
    monkeypatch.setattr(daily_counts, "_MOST_UNCOUNTED", -1)  # so that rows are counted
    count = daily_counts.count_usage
    monkeypatch.setattr(
        daily_counts, "count_usage", lambda records, days: count(records.filter(_TakesTime("id")), days)
    )
    console = Console(make_person(may=["audit.read_log"]))
    refused = console.get("/rest/operations/statistics")
    assert (refused.status, refused.code) == (503, "Service.Unavailable")
    assert refused.body["detail"] == "The database took longer than 0.05 s: ask for less."
    Person.objects.filter(pk=console.person.pk).update(is_staff=True)
    find = OperationRecordAdmin.get_queryset
    monkeypatch.setattr(
        OperationRecordAdmin, "get_queryset", lambda self, request: find(self, request).filter(_TakesTime("id"))
    )
    page = console.client.get("/admin/audit/operationrecord/")
    assert page.status_code == 503
    assert "The database took longer than 0.05 s" in page.content.decode()
    monkeypatch.undo()
    assert console.get("/rest/operations/statistics").status == 200
    with CaptureQueriesContext(connection) as queries:
        assert "CN=Zebra" in console.client.get("/admin/audit/operationrecord/").content.decode()
    of_log = [query["sql"] for query in queries if "audit_operationrecord" in query["sql"]]
    assert not [sql for sql in of_log if "DISTINCT" in sql or ("COUNT" in sql and "LIMIT" not in sql)]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() == ("0",)
