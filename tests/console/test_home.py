"""The first page of the console: which panels there are for whom, and what they say."""

import re
import sys
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection as database
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from approvals.models import ChangeRequest
from audit import log
from audit.read_buffer import reads
from console.shared.charts import daily_chart
from core.operation import Risk
from directory.models import DirectoryConnection
from directory.models.runs import AccountStatus
from gateway.monitoring.readiness import Readiness, readiness
from tests.approvals.proposals import hold
from tests.audit.calls import CALL, call_named, make_call
from tests.audit.test_statistics import logged
from tests.console.test_log import make_change, text_of
from tests.directory.runs.test_lists import add_results, make_run
from tests.support.cast import Console, make_integration, make_person

pytestmark = pytest.mark.django_db

PANELS = {
    "Waits for you": "approvals.decide_change",
    "Activity": "audit.read_log",
    "Recent changes": "audit.read_log",
    "Health": "directory.view_directoryconnection",
}


def home(*may: str) -> str:
    return text_of(Console(make_person(may=may)).get("/console/"))


@pytest.fixture
def connection() -> DirectoryConnection:
    return DirectoryConnection.objects.create(
        name="corp", urls=["ldaps://127.0.34.2"], base_dn="DC=x", bind_dn="CN=x", bind_password="x"
    )


@pytest.mark.parametrize("permission", sorted({*PANELS.values(), "keys.view_role"}))
def test_each_panel_is_for_who_may_see_it(permission: str) -> None:
    page = home(permission)
    shown = {panel for panel in PANELS if f">{panel}<" in page}
    also = {"Health"} if permission == "audit.read_log" else set()  # the chain of the log is part of it
    assert shown == {panel for panel, needed in PANELS.items() if needed == permission} | also


def test_a_new_person_is_told_what_to_ask_for() -> None:
    person = make_person("newcomer")
    page = text_of(Console(person).get("/console/"))
    assert "Welcome, newcomer" in page
    assert "approvals.decide_change" in page
    assert "Welcome" not in home("audit.read_log")


def test_who_has_nothing_to_look_after_is_led_to_what_they_can_do() -> None:
    start = home("directory.read_object").partition("What you can do here")[2]
    assert 'href="/console/directory/"' in start
    assert 'href="/console/log/"' not in start
    assert "What you can do here" not in home("audit.read_log")


def test_what_waits_the_most_dangerous_first_then_the_oldest_and_not_ones_own() -> None:
    named = [("Oldest", Risk.ORDINARY), ("Dangerous", Risk.SECURITY)]
    named += [(f"N{number}", Risk.DESTRUCTIVE) for number in range(9)]
    for number, (name, risk) in enumerate(named):
        request = hold(make_call(**call_named(f"call-{number}")))
        own_line = {"key_id": str(number)}
        ChangeRequest.objects.filter(id=request.id).update(target_dn=f"CN={name},DC=corp", risk=risk, **own_line)
    page = home("approvals.decide_change")
    assert 0 < page.index("of Dangerous") < page.index("of N0") < page.index("of Oldest"), "of any number"
    assert "of N8" not in page
    assert "1 security" in page
    assert "1 ordinary" in page

    approver = make_person(may=["approvals.decide_change"])
    ChangeRequest.objects.update(requester_id=approver.pk)
    assert "Nothing waits for your decision." in text_of(Console(approver).get("/console/"))


def test_it_asks_the_database_little_and_counts_no_list_that_it_shows_whole() -> None:
    console = Console(make_person(superuser=True))
    console.get("/console/")
    with CaptureQueriesContext(database) as captured:
        console.get("/console/")
    asked = [query["sql"] for query in captured if query["sql"].startswith("SELECT")]
    assert len(asked) <= 22, asked
    assert [sql for sql in asked if "COUNT(*)" in sql and "decided_at" not in sql] == []


def test_what_waits_costs_less_than_half_of_the_page() -> None:
    console = Console(make_person(superuser=True))

    def cost() -> tuple[int, int]:
        """The calls of functions, which take the processor's time but are as many on each machine, and the queries."""
        calls = Counter[str]()
        console.get("/console/")  # what is loaded once
        with CaptureQueriesContext(database) as captured:
            sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
            try:
                console.get("/console/")
            finally:
                sys.setprofile(None)
        return calls["call"] + calls["c_call"], len(captured)

    calls, queries = cost()
    for number in range(30):
        request = hold(make_call(**call_named(f"call-{number // 2}")))
        risk = list(Risk)[number % len(Risk)]
        ChangeRequest.objects.filter(id=request.id).update(target_dn=f"CN=N{number},DC=corp", risk=risk)
    with_lines, more_queries = cost()
    assert with_lines - calls < 45_000, (with_lines, calls)  # 36,000; 90,000 when Django wrote all the SQL
    assert more_queries <= queries + 4, "two of lines, their number, and what is in them"


def test_ones_own_requests_are_for_everybody() -> None:
    person = make_person("grace")
    call = make_call(person=CALL.person.__class__(id=person.id, username="grace", display_name="Grace"))
    request = hold(call)
    page = text_of(Console(person).get("/console/"))
    assert "Your own requests" in page
    assert f'href="/console/changes/{request.id}"' in page
    assert "Your own requests" not in home()


def test_recent_changes_without_reads() -> None:
    make_change()
    log.record_read(CALL, operation="users.search")
    reads.flush()
    page = home("audit.read_log")
    assert "Change job title of Ada Lovelace" in page
    assert "Search users" not in page


def test_runs_in_progress(connection: DirectoryConnection) -> None:
    add_results(make_run(connection, state="running"), AccountStatus.SUCCEEDED, AccountStatus.FAILED)
    make_run(connection, state="completed", unit_dn="OU=Done,DC=corp")
    page = home("directory.run_accounts")
    assert "Disable the accounts of Staff" in page
    assert '<progress class="meter" max="4" value="2"' in page
    assert "1 failed" in page
    assert "Done" not in page
    assert "Runs in progress" not in home("audit.read_log")


def test_runs_are_looked_at_less_often_while_there_are_none(connection: DirectoryConnection) -> None:
    console = Console(make_person(may=["directory.run_accounts"]))
    part = text_of(console.get("/console/home/runs"))
    assert 'hx-trigger="every 20s"' in part
    assert "No run is in progress." in part
    make_run(connection)
    assert 'hx-trigger="every 3s"' in text_of(console.get("/console/home/runs"))
    assert "<html" not in part


def test_keys_to_look_at() -> None:
    soon, idle = make_integration(None, may=[]).key, make_integration(None, may=[]).key
    soon.expires_at = timezone.now() + timedelta(days=3, hours=1)
    idle.last_used_at = timezone.now() - timedelta(days=120)
    for key in (soon, idle):
        key.save()
    page = home("keys.view_apikey")
    assert "Expire within 30 days: 1" in page
    assert "in 3 days" in page
    assert "Not used for 90 days: 1" in page
    assert idle.name in page
    assert "Keys that need attention" not in home("audit.read_log")


def columns(part: str) -> list[tuple[str, str, str]]:
    return re.findall(r'<rect class="(\w+)" x="[\d.]+%" y="([\d.]+%)" width="[\d.]+%" height="([\d.]+%)"', part)


@pytest.mark.usefixtures("within_a_day")
def test_changes_per_day_as_chart_and_as_table() -> None:
    console = Console(make_person(may=["audit.read_log"]))
    for _ in range(3):
        make_change()
    log.record_refusal(CALL, operation="users.update", code="AD.Object.NotFound")
    part = text_of(console.get("/console/home/activity"))
    assert "4 in 14 days (UTC): 3 succeeded, 1 failed." in part
    assert columns(part) == [], "one day is no chart: the sentence says it all"
    logged(at=timezone.now() - timedelta(days=1))
    part = text_of(console.get("/console/home/activity"))
    assert "5 in 14 days (UTC): 4 succeeded, 1 failed." in part
    assert columns(part) == [("good", "75.00%", "25.00%"), ("good", "25.00%", "75.00%"), ("bad", "0.00%", "25.00%")]
    assert part.count('<th scope="row"><a href="/console/log/?from=') == 14
    today = f"{timezone.now():%Y-%m-%d}"
    assert f"<title>{today}: 3 succeeded, 1 failed</title>" in part
    assert f'href="/console/log/?from={today}T00:00&to={today}T23:59&onlyChanges=true"' in part
    assert text_of(console.get("/console/home/activity?days=90")).count("<title>") == 90


def test_operations_by_key_as_bars_in_their_table() -> None:
    console = Console(make_person(may=["audit.read_log"]))
    make_change()
    log.record_refusal(CALL, operation="users.update", code="Auth.Forbidden")
    by_hand = make_call(credential=CALL.credential.__class__(kind=CALL.credential.kind, id="s", name=None))
    make_change(by_hand)
    part = text_of(console.get("/console/home/activity"))
    table = part[part.index('class="small bars"') :]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table, re.DOTALL)
    bars = [(re.sub("<.*?>", "", name).strip(), re.findall(r">(\d+)<", cells)) for name, cells in rows]
    assert bars == [("crm", ["2", "1", "1"]), ("People", ["1", "0", "0"])]
    assert '<rect class="bad" x="50.00%" y="0" width="50.00%" height="100%"/>' in part
    assert re.search(r'<a href="/console/log/\?keyName=crm&from=[^"]*">crm</a>', part)
    assert re.search(r'<a href="/console/log/\?keyName=crm&outcome=failed&from=[^"]*">1</a>', part)


@pytest.mark.parametrize(
    ("most", "top"), [(0, 1), (1, 1), (9, 9), (10, 10), (11, 20), (24, 30), (99, 100), (100, 100), (4321, 5000)]
)
def test_a_chart_ends_at_a_round_number(most: int, top: int) -> None:
    none = dict.fromkeys(("queued", "failed", "unknown", "pending"), 0)
    chart = daily_chart([{"day": "2026-11-20", "succeeded": most, **none}, {"day": "x", "succeeded": 0, **none}])
    assert (chart["top"], chart["total"]) == (top, most)
    assert [len(column["parts"]) for column in chart["columns"]] == [1 if most else 0, 0]


def test_nothing_to_chart() -> None:
    part = text_of(Console(make_person(may=["audit.read_log"])).get("/console/home/activity"))
    assert "0 in 14 days (UTC): no changes." in part
    assert "No operations in this period." in part
    assert "<rect" not in part


@pytest.mark.django_db(transaction=True)  # the checks have database connections of their own
def test_health(connection: DirectoryConnection) -> None:
    Readiness.__init__(readiness)
    part = text_of(Console(make_person(may=["directory.view_directoryconnection"])).get("/console/home/health"))
    assert re.search(r"Directory corp.*?Away", part, re.DOTALL)
    assert re.search(r"Database.*?Answers", part, re.DOTALL)
    assert "The log's chain" not in part
    part = text_of(Console(make_person(may=["audit.read_log"])).get("/console/home/health"))
    assert "Directory corp" not in part
    assert "The log's chain" in part


def test_parts_are_refused_to_whom_their_panels_are_not_shown() -> None:
    console = Console(make_person())
    assert console.get("/console/home/activity").status == 403
    part = console.get("/console/home/health")
    assert (part.status, part.body.strip()) == (200, b"")
