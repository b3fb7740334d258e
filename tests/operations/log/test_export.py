"""The operations log as NDJSON and CSV: the same records as its pages, all of them, in constant memory."""

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from audit import log
from audit.models import OperationRecord
from audit.read_buffer import reads
from core import paging
from tests.audit.calls import CALL, make_call
from tests.support.cast import Console, Integration, make_integration, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

NDJSON, CSV = "application/x-ndjson", "text/csv"
ADA = log.TargetRef(id=uuid4(), kind="user", distinguished_name="CN=Ada,DC=corp")


@pytest.fixture
def auditor() -> Integration:
    return make_integration(None, may=["audit.read_log"])


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_STREAMED_AT_ONCE", 10)


def write(count: int, **facts: Any) -> None:
    changes = [{"attribute": "mail", "before": [], "after": ["a@example.test"]}]
    for number in range(count):
        call = make_call(request_id=f"request-{number}", **facts)
        log.record_intent(call, log.Intent(operation="users.update", target=ADA, changes=changes))


def fetch(auditor: Integration, accept: str, query: str = "", path: str = "/api/operations") -> Any:
    headers = {"X-API-Key": auditor.value, "Accept": accept}
    return auditor.client.get(f"{path}{query}", headers=headers)


def text_of(response: Any) -> str:
    assert response.status_code == 200, response.content
    assert response.streaming
    return b"".join(response.streaming_content).decode()


def lines_of(response: Any) -> list[Any]:
    return [json.loads(line) for line in text_of(response).splitlines()]


def rows_of(response: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(response), newline=""), strict=True))


@pytest.mark.parametrize("count", [0, 1, 10, 35])
def test_it_works(auditor: Integration, count: int) -> None:
    write(count)
    page = auditor.get("/api/operations?pageSize=1000").body["items"]
    assert len(page) == count
    response = fetch(auditor, NDJSON)
    assert response.headers["Content-Type"] == NDJSON
    assert lines_of(response) == page


def test_the_same_filters(auditor: Integration) -> None:
    write(12)
    log.record_refusal(CALL, operation="users.delete", code="Auth.Forbidden")
    assert [item["operation"] for item in lines_of(fetch(auditor, NDJSON, "?outcome=failed"))] == ["users.delete"]
    (row,) = rows_of(fetch(auditor, CSV, "?requestId=request-7"))
    assert row["requestId"] == "request-7"
    assert fetch(auditor, NDJSON, "?pageSize=10").status_code == 400
    assert fetch(auditor, CSV, "?nonsense=1").status_code == 400


def test_columns(auditor: Integration) -> None:
    write(1, reason="=cmd|' /C calc'!A0")
    response = fetch(auditor, CSV)
    assert response.headers["Content-Type"].startswith("text/csv")
    (row,) = rows_of(response)
    assert list(row)[:5] == ["id", "at", "completedAt", "surface", "operation"]
    assert (row["target.id"], row["target.kind"]) == (str(ADA.id), "user")
    assert row["target.distinguishedName"] == "CN=Ada,DC=corp"
    assert json.loads(row["changes"]) == [{"attribute": "mail", "before": [], "after": ["a@example.test"]}]
    assert row["reason"] == "'=cmd|' /C calc'!A0"
    log.record_refusal(CALL, operation="@x", code="X")
    (row,) = rows_of(fetch(auditor, CSV, "?outcome=failed"))
    assert (row["operation"], row["changes"], row["target.id"]) == ("'@x", "[]", "")


def test_from_the_console(auditor: Integration) -> None:
    write(3)
    console = Console(make_person(may=["audit.read_log"]))
    response = console.client.get("/rest/operations", headers={"Accept": CSV})
    assert len(rows_of(response)) == 3
    nobody = Console(make_person())
    assert nobody.client.get("/rest/operations", headers={"Accept": CSV}).status_code == 403


def test_new_records_do_not_disturb(auditor: Integration) -> None:
    write(25)
    stream: Iterator[bytes] = fetch(auditor, NDJSON).streaming_content
    text = next(stream) + next(stream)
    write(5)
    text += b"".join(stream)
    assert len(text.splitlines()) == len({json.loads(line)["id"] for line in text.splitlines()}) == 25


def test_the_export_is_recorded(auditor: Integration) -> None:
    lines_of(fetch(auditor, NDJSON))
    reads.flush()
    record = OperationRecord.objects.get(operation="operations.search")
    assert (record.outcome, record.key_name) == ("succeeded", auditor.key.name)


def test_memory(auditor: Integration, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "_STREAMED_AT_ONCE", 100)
    record = log.record_refusal(CALL, operation="users.delete", code="X")
    note = "x" * 400

    def copies(count: int) -> list[OperationRecord]:
        from audit.identifiers import new_identifier

        found = []
        for _ in range(count):
            identifier, at = new_identifier()
            facts = {field.attname: getattr(record, field.attname) for field in record._meta.concrete_fields}
            found.append(OperationRecord(**facts | {"id": identifier, "at": at, "reason": note}))
        return found

    def peak() -> int:
        stream = fetch(auditor, NDJSON).streaming_content
        tracemalloc.start()
        for _ in stream:
            pass
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    OperationRecord.objects.bulk_create(copies(300))
    few = peak()
    OperationRecord.objects.bulk_create(copies(3000))
    assert peak() < few * 1.5
