"""The operations log in the console: what its pages show, to whom, and what they export. Clicking is the browser's."""

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from audit import log
from audit.chain import sealing, verifying
from audit.chain.verification import keep_verification
from audit.chain.walk import Finding, Progress
from audit.migrations._append_only import release_records
from audit.models import OperationRecord
from audit.read_buffer import reads
from console.log import extract_period
from core.call import Call
from tests.audit.calls import CALL, call_named, make_call
from tests.audit.test_statistics import logged
from tests.gateway.monitoring.test_health import connect_to
from tests.support.cast import Answer, Console, make_person
from tests.support.markup import markup_of

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

PATH = "/console/log/"
ADA = log.TargetRef(UUID(int=1), "user", "CN=Ada Lovelace,OU=Staff,DC=corp,DC=example,DC=test")
CHANGES = [{"attribute": "title", "before": ["Clerk"], "after": ["Countess"]}]


@pytest.fixture
def console() -> Console:
    return Console(make_person(may=["audit.read_log"]))


def text_of(answer: Answer) -> str:
    return unescape(markup_of(answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)))


def make_change(call: Call = CALL, operation: str = "users.update", **facts: Any) -> OperationRecord:
    intent = {"target": ADA, "changes": CHANGES, "reversible": "full", **facts}
    record = log.record_intent(call, log.Intent(operation=operation, **intent))
    log.complete(record.id, outcome="succeeded", server="dc1.corp.example.test")
    return record


def exported(console: Console, path: str) -> tuple[str, Any]:
    response: Any = console.client.get(path)
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode(), response.headers


def test_it_works(console: Console) -> None:
    record = make_change()
    page = text_of(console.get(PATH))
    for shown in (
        "Change job title of Ada Lovelace",
        "corp.example.test / Staff",
        "Succeeded",
        "ada",
        "crm",
        "just now",
    ):
        assert shown in page
    assert f'href="/console/log/{record.id}"' in page
    assert f"{record.at:%Y-%m-%d %H:%M:%S} UTC" in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("owner=ada", True),
        ("owner=bob", False),
        ("keyName=crm", True),
        ("keyName=erp", False),
        ("operation=users.update", True),
        ("operation=users.delete", False),
        ("outcome=succeeded", True),
        ("outcome=failed", False),
        (f"target={ADA.id}", True),
        (f"target={UUID(int=2)}", False),
        ("requestId=request-1", True),
        ("requestId=request-2", False),
        (f"runId={UUID(int=3)}", False),
        ("owner=&keyName=&operation=&outcome=&target=", True),
    ],
)
def test_every_filter_of_the_operation(console: Console, query: str, found: bool) -> None:
    make_change()
    page = text_of(console.get(f"{PATH}?{query}"))
    assert ("Change job title of Ada Lovelace" in page) is found
    assert ("Nothing in the log matches these filters." in page) is not found


def test_times_are_utc_and_a_minute_is_meant_to_its_end(console: Console) -> None:
    at = make_change().at.astimezone(UTC)
    minute = f"{at:%Y-%m-%dT%H:%M}"
    for query, found in (
        (f"from={minute}&to={minute}", True),
        (f"from={minute}:59.999999", at.second == 59 and at.microsecond == 999999),
        (f"to={minute}:00", False),
        (f"from={at:%Y-%m-%dT%H:%M:%S.%f}Z&to={at:%Y-%m-%dT%H:%M:%S.%f}%2B00:00", True),
    ):
        assert ("Change job title of Ada Lovelace" in text_of(console.get(f"{PATH}?{query}"))) is found, query


def test_a_filter_that_makes_no_sense_is_told_beside_its_field(console: Console) -> None:
    answer = console.get(f"{PATH}?target=ada&from=2026-13-01T00:00")
    assert answer.status == 400
    page = text_of(answer)
    assert 'id="target-error">This is not an id.' in page
    assert 'id="from-error">Choose a date and a time' in page
    assert "Change job title of Ada Lovelace" not in page
    assert console.get(f"{PATH}?nonsense=1").status == 400
    for moment in ("0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"):
        assert 'id="from-error">' in text_of(console.get(f"{PATH}?from={moment}"))


def test_page_by_page(console: Console) -> None:
    for number in range(5):
        make_change(operation=f"n.step-{number}", target=None)
    first = text_of(console.get(f"{PATH}?pageSize=2&owner=ada"))
    assert ("Step 4" in first, "Step 2" in first) == (True, False)
    (there,) = [part.partition('"')[0] for part in first.split('href="') if "cursor=" in part.partition('"')[0]]
    second = text_of(console.get(f"{PATH}{there}"))
    assert ("Step 4" in second, "Step 2" in second) == (False, True)
    assert "Back to the newest" in second


def test_changes_without_reads(console: Console) -> None:
    make_change()
    log.record_read(CALL, operation="users.search")
    reads.flush()
    assert "Search users" in text_of(console.get(PATH))
    page = text_of(console.get(f"{PATH}?onlyChanges=true"))
    assert ("Search users" in page, "Change job title of Ada Lovelace" in page) == (False, True)


def test_a_record(console: Console) -> None:
    call = make_call(change_request_id=uuid4())
    record = make_change(call, run_id=uuid4(), batch_index=3, approved_by="grace")
    page = text_of(console.get(f"{PATH}{record.id}"))
    for shown in (
        "<del>Clerk</del>",
        "<ins>Countess</ins>",
        "Ticket 4711",
        "192.0.2.7",
        "dc1.corp.example.test",
        "approved by grace",
        "item 3 of a batch",
        f'href="/console/directory/objects/{ADA.id}"',
        f'href="/console/changes/{call.change_request_id}"',
        f'href="/console/runs/{record.run_id}"',
        'href="/console/log/?requestId=request-1"',
    ):
        assert shown in page
    assert "Undo" not in page  # for who may revert


def test_what_is_no_object_of_the_directory_has_no_link_to_one(console: Console) -> None:
    role = uuid4()
    record = log.record_administration(
        CALL,
        operation="roles.update",
        target=log.TargetRef(id=role, kind="roles", distinguished_name="Help desk"),
        changes=[{"attribute": "description", "before": [], "after": ["Reads"]}],
    )
    page = text_of(console.get(f"{PATH}{record.id}"))
    assert str(role) in page
    assert "/console/directory/objects/" not in page


def test_what_was_recorded_is_text(console: Console) -> None:
    evil = "<script>alert(1)</script>"
    call = make_call(reason=evil, request_id="r-1")
    changes = [{"attribute": "title", "before": [], "after": [evil]}]
    record = make_change(call, target=log.TargetRef(uuid4(), "user", f"CN={evil},DC=corp"), changes=changes)
    for path in (PATH, f"{PATH}{record.id}"):
        assert evil not in console.get(path).body.decode()


@pytest.mark.usefixtures("within_a_day")
def test_all_of_it_as_ndjson(console: Console) -> None:
    records = [make_change(operation=f"n.{number}") for number in range(3)]
    text, headers = exported(console, f"{PATH}export.ndjson?owner=ada")
    assert [json.loads(line)["id"] for line in text.splitlines()] == [str(item.id) for item in reversed(records)]
    assert headers["Content-Type"] == "application/x-ndjson"
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert headers["Content-Disposition"] == f'attachment; filename="operations-{today}.ndjson"'


def test_all_of_it_as_csv(console: Console) -> None:
    make_change(make_call(reason="=1+1"))
    make_change(operation="users.delete")
    minute = f"{datetime.now(UTC):%Y-%m-%dT%H:%M}"
    text, _ = exported(console, f"{PATH}export.csv?operation=users.update&to={minute}&cursor=none&pageSize=1")
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["operation"], row["reason"], row["target.id"]) == ("users.update", "'=1+1", str(ADA.id))


def test_changes_in_a_spreadsheet(console: Console) -> None:
    """The CSV of a page is for people: it says what changed in words, in their language, and runs nothing."""
    changes = [
        {"attribute": "title", "before": ["Engineer"], "after": ["Lead"]},
        {"attribute": "department", "before": ["IT"], "after": ["Legal;=1+1"]},
        {"attribute": "mail", "before": ["a@example.test"], "after": []},
    ]
    make_change(changes=changes)
    joins = {"attribute": "member", "before": [], "after": [ADA.distinguished_name]}
    make_change(operation="groups.change-members", changes=[joins])
    make_change(operation="users.update", changes=[{"attribute": "-1+1", "before": [], "after": ["=x"]}])

    def cells(**headers: str) -> list[str]:
        response: Any = console.client.get(f"{PATH}export.csv?onlyChanges=true", headers=headers)
        text = b"".join(response.streaming_content).decode()
        return [row["changes"] for row in csv.DictReader(io.StringIO(text))]

    assert cells()[::-1] == [
        "Job title: Engineer → Lead; Department: IT → Legal;'=1+1; E-mail: a@example.test → (empty)",
        "Members: + Ada Lovelace; others, if there are any, stay",
        "'-1+1: (empty) → =x",
    ]
    assert cells(Accept_Language="de")[-1].startswith("Position: Engineer → Lead; Abteilung: IT → ")
    text, _ = exported(console, f"{PATH}export.ndjson?operation=users.update")
    assert json.loads(text.splitlines()[-1])["changes"] == changes, "programs read all values"


def test_the_chain(console: Console) -> None:
    assert "No seal yet" in text_of(console.get(PATH))
    forged = make_change()
    sealing.seal_records()
    page = text_of(console.get(PATH))
    assert "All records are sealed" in page
    assert "never, or not noted" in page
    forged.id = uuid4()
    forged.save(force_insert=True)
    sealing.seal_records()
    assert "Records that the gateway did not make: 1." in text_of(console.get(PATH))


def test_a_chain_that_nobody_makes_longer(console: Console) -> None:
    logged(at=timezone.now() - timedelta(seconds=15))
    assert "New records are not being sealed." not in text_of(console.get(PATH))
    logged(at=timezone.now() - timedelta(seconds=65))
    assert "New records are not being sealed." in text_of(console.get(PATH))


def test_the_last_verification(console: Console) -> None:
    make_change()
    sealing.seal_records()
    keep_verification(Progress(records=1), None)
    assert "1 record as written" in text_of(console.get(PATH))
    keep_verification(Progress(), Finding(None, "seal 1 was changed"))
    page = text_of(console.get(PATH))
    assert "Tampered with" in page
    assert "The last verification found: seal 1 was changed." in page


def test_a_change_of_another_directory_is_reverted_there(console: Console) -> None:
    record = make_change()
    auditor = Console(make_person(may=["audit.read_log", "audit.revert_change"]))
    assert "can be undone in the directory corp: choose it above" in text_of(auditor.get(f"{PATH}{record.id}"))
    connect_to("ldaps://127.0.34.2", "corp")
    page = text_of(auditor.get(f"{PATH}{record.id}"))
    assert f'href="/console/log/{record.id}/revert"' in page
    assert auditor.get(f"{PATH}{record.id}/revert").status == 403, "it is called the same, but is not the same"
    assert f'href="/console/log/{record.id}/revert"' not in text_of(console.get(f"{PATH}{record.id}"))


def test_only_for_who_may_read_the_log() -> None:
    stranger = Console(make_person(may=["approvals.decide_change"]))
    for path in (PATH, f"{PATH}export.csv", f"{PATH}{UUID(int=1)}", f"{PATH}{UUID(int=1)}/revert"):
        assert stranger.get(path).status == 403
    assert 'href="/console/log/"' not in text_of(stranger.get("/console/"))


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        ("users.delete", "Delete a user"),
        ("organization-units.disable-accounts", "Disable the accounts of an organizational unit"),
        ("directories.create", "Create a directory connection"),
        ("service-accounts.search", "Search service accounts"),
        ("users.reset-password", "Reset the password of a user"),
    ],
)
def test_what_has_no_name(console: Console, operation: str, told: str) -> None:
    make_change(operation=operation, target=None)
    assert f">{told}</a>" in text_of(console.get(PATH))


def test_a_record_that_is_not_there(console: Console) -> None:
    assert console.get(f"{PATH}{uuid4()}").status == 404


@pytest.mark.parametrize(
    ("said", "begins", "ends"),
    [
        ("last month", "2028-01-01T00:00", "2028-01-31T23:59"),
        ("this month", "2028-02-01T00:00", None),
        ("last week", "2028-02-21T00:00", "2028-02-27T23:59"),
        ("yesterday", "2028-02-28T00:00", "2028-02-28T23:59"),
        ("last year", "2027-01-01T00:00", "2027-12-31T23:59"),
        ("last 7 days", "2028-02-22T12:30", None),
        ("letzten Monat", "2028-01-01T00:00", "2028-01-31T23:59"),
        ("diese Woche", "2028-02-28T00:00", None),
        ("gestern", "2028-02-28T00:00", "2028-02-28T23:59"),
        ("letztes Jahr", "2027-01-01T00:00", "2027-12-31T23:59"),
        ("letzten 7 Tage", "2028-02-22T12:30", None),
        ("last 2 months", "2027-12-29T12:30", None),
        ("letzten 12 Monaten", "2027-02-28T12:30", None),
        ("letzten 3 Jahre", "2025-02-28T12:30", None),
    ],
)
def test_a_time_that_is_said(said: str, begins: str, ends: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: datetime(2028, 2, 29, 12, 30, tzinfo=UTC))
    query = extract_period({"q": f"Ada {said.upper()} password"})
    assert query == {"q": "Ada password", "from": begins, **({"to": ends} if ends else {})}


@pytest.mark.parametrize("said", ["update", "change", "ändern"])
def test_what_was_done_is_said_in_any_language(said: str, console: Console) -> None:
    make_change()
    assert "Change job title of Ada Lovelace" in text_of(console.get(f"{PATH}?q=lovelace+{said}&owner=ada"))
    assert "Change job title" not in text_of(console.get(f"{PATH}?q=lovelace+löschen&owner=ada"))


def test_a_search_that_says_a_time_is_made_explicit(console: Console) -> None:
    make_change()
    answer = console.get(f"{PATH}?q=lovelace+today&owner=ada")
    assert answer.status == 302
    assert re.fullmatch(r"/console/log/\?q=lovelace&owner=ada&from=[\d%A-Z-]*", answer.headers["Location"])
    assert "Change job title of Ada Lovelace" in text_of(console.get(answer.headers["Location"]))


def test_words_and_values_are_looked_for_in_the_last_month(console: Console) -> None:
    make_change()
    answer = console.get(f"{PATH}?value=clerk")
    since = f"{timezone.now() - timedelta(days=31):%Y-%m-%dT00:00}"
    assert unquote(answer.headers["Location"]).endswith(f"?value=clerk&from={since}")
    page = text_of(console.get(answer.headers["Location"]))
    assert "Change job title of Ada Lovelace" in page
    assert 'from=2000-01-01T00%3A00">Search everything' in page
    assert console.get(f"{PATH}?value=clerk&owner=ada").status == 200


def test_runs_and_batches_are_folded_and_unfolded(console: Console) -> None:
    call = make_call(**call_named("batch-1"))
    for number in range(3):
        make_change(call, batch_index=number)
    page = text_of(console.get(PATH))
    assert page.count('<th scope="row">') == 1
    assert ">Update 3 users</a>" in page
    assert text_of(console.get(f"{PATH}?callId={call.call_id}")).count('<th scope="row">') == 3


def test_tampering_is_told_on_every_page_and_nothing_is_made_of_the_record(console: Console) -> None:
    record = make_change()
    sealing.seal_records()
    release_records(apps, connection.schema_editor())
    OperationRecord.objects.filter(pk=record.pk).update(owner="mallory")
    auditor = Console(make_person(may=["audit.read_log", "audit.revert_change"]))
    page = text_of(auditor.get(f"{PATH}{record.id}"))
    assert "This record cannot be trusted." in page
    assert f'href="/console/log/{record.id}/revert"' not in page
    assert "can be reverted" not in page
    verifying.verify()
    for path in (PATH, f"{PATH}{record.id}", f"{PATH}evidence?target={ADA.id}"):
        assert "Tampered with." in text_of(auditor.get(path)), path
    assert "Tampered with." not in text_of(console.get("/console/account"))


def test_evidence_of_an_object(console: Console) -> None:
    make_change(make_call(reason="Ticket 1"))
    make_change(make_call(reason="Ticket 2"))
    make_change(target=log.TargetRef(uuid4(), "user", "CN=Eve,DC=corp"))
    page = text_of(console.get(f"{PATH}evidence?target={ADA.id}"))
    assert page.index("Ticket 1") < page.index("Ticket 2"), "the oldest first"
    for shown in ("Ada Lovelace: evidence", "<ins>Countess</ins>", "from the beginning", "until now", "192.0.2.7"):
        assert shown in page, shown
    assert "CN=Eve" not in page
    assert console.get(f"{PATH}evidence").status == 404, "of whom?"


def test_evidence_after_a_good_verification_in_german(console: Console) -> None:
    make_change(make_call(reason="Ticket 1"))
    sealing.seal_records()
    verifying.verify()
    page = text_of(console.call("GET", f"{PATH}evidence?target={ADA.id}", Accept_Language="de"))
    assert "Ticket 1" in page
    assert "jeder Eintrag" in page
