"""The inbox: the requests of one call in a line, filtered, in order; which comes next; how many there are."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from approvals.models import ChangeRequest, Status
from core.call import Call, PersonRef, Surface
from core.operation import Risk
from core.shapes import load_query
from directory.shapes.proposal import AttributeChange, Target
from operations.approvals.change_requests import inbox
from operations.approvals.change_requests.grouped_review import ReadTogether, read_together
from tests.approvals.proposals import APPROVER, IN_CONSOLE, hold
from tests.audit.calls import call_named, make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

BOB = PersonRef(id=8_000_008, username="bob", display_name="Bob")
ADA_IN_CONSOLE = make_call(
    surface=Surface.REST, permissions=frozenset({"approvals.decide_change", "directory.read_object"})
)


def ask(name: str, *, call: str = "", risk: Risk = Risk.ORDINARY, hours_ago: float = 0, **fields: Any) -> ChangeRequest:
    """A held change of an object of this name, by a call and a key of its own unless it shares one."""
    target = Target(id=None, kind="user", distinguished_name=f"CN={name},DC=corp", account_name=name.lower())
    request = hold(make_call(**call_named(call or name), **fields.pop("caller", {})), target=target, **fields)
    at = timezone.now() - timedelta(hours=hours_ago)
    facts = {"risk": risk, "created_at": at, "expires_at": at + timedelta(hours=168), "key_id": str(request.call_id)}
    ChangeRequest.objects.filter(id=request.id).update(**facts)
    return request


def lines(caller: Call = IN_CONSOLE, **parameters: str) -> list[list[str]]:
    """By line the names of the objects concerned."""
    query = load_query(inbox.ListInbox, parameters)
    return [
        [each["changeRequest"]["target"]["distinguishedName"][3:].partition(",")[0] for each in line["first"]]
        for line in inbox.list_inbox(caller, query=query)["items"]
    ]


def following(after: ChangeRequest | None = None, caller: Call = IN_CONSOLE, **parameters: str) -> str | None:
    query = load_query(inbox.FindNext, {**({"after": str(after.id)} if after else {}), **parameters})
    found = inbox.find_next(caller, query=query)["id"]
    return None if found is None else ChangeRequest.objects.get(id=found).target_dn[3:].partition(",")[0]


def test_those_of_one_call_are_one_line() -> None:
    for number in range(30):
        ask(f"P{number}", call="batch", risk=Risk.SECURITY if number == 7 else Risk.ORDINARY)
    ask("Alone", risk=Risk.DESTRUCTIVE)
    ask("Other call", caller={"person": BOB})
    page = inbox.list_inbox(IN_CONSOLE, query=load_query(inbox.ListInbox, {}))
    assert [line["count"] for line in page["items"]] == [30, 1, 1]
    assert (page["total"], page["nextCursor"]) == (3, None)
    first = page["items"][0]
    assert first["risks"] == {"ordinary": 29, "destructive": 0, "security": 1}
    assert [each["targetAccount"] for each in first["first"]][:3] == ["p7", "p0", "p1"]
    assert len(first["first"]) < 30, "some of them say what it is about"


def test_single_requests_of_a_key_that_are_alike_are_one_line() -> None:
    title, phone = (AttributeChange(name, (), ("new",)) for name in ("title", "telephoneNumber"))
    alike = [ask(name, changes=(title,)) for name in "abc"]
    names = [
        "other attribute",
        "other key",
        "other operation",
        "deleted",
        "deleted too",
        "run",
        "other run",
        "earlier",
    ]
    others = [ask(name, changes=(phone if "deleted" in name or name == names[0] else title,)) for name in names]
    batch = [ask(name, call="batch", changes=(title,)) for name in "de"]
    at = ChangeRequest.objects.latest("created_at").created_at
    ChangeRequest.objects.update(key_id="one", created_at=at)
    for request, changed in (
        (others[1], {"key_id": "other"}),
        (others[2], {"operation": "users.disable"}),
        (others[3], {"operation": "users.delete"}),
        (others[4], {"operation": "users.delete", "changes": alike[0].changes}),
        *((run, {"operation": "organization-units.disable-accounts"}) for run in others[5:7]),
        (others[7], {"created_at": at - timedelta(hours=1)}),
    ):
        ChangeRequest.objects.filter(id=request.id).update(**changed)
    together = ["deleted", "deleted too"]
    assert sorted(lines()) == sorted(
        [["a", "b", "c"], ["d", "e"], together, *([n] for n in names if n not in together)]
    )
    for first, expected in ((alike[0], alike), (batch[0], batch), (others[0], others[:1]), (others[5], others[5:6])):
        query = load_query(ReadTogether, {"groupOf": str(first.id)})
        shown = [item["changeRequest"]["id"] for item in read_together(IN_CONSOLE, query=query)["items"]]
        assert shown == [str(each.id) for each in expected]
    found = inbox.find_next(IN_CONSOLE, query=load_query(inbox.FindNext, {"sort": "object"}))
    assert (found["id"], found["count"]) == (str(alike[0].id), 3)


def test_the_most_dangerous_and_then_the_oldest_come_first() -> None:
    ask("Young", hours_ago=1)
    ask("Old", hours_ago=9)
    ask("Deleted", hours_ago=1, risk=Risk.DESTRUCTIVE)
    ask("Secure", hours_ago=2, risk=Risk.SECURITY)
    assert lines() == [["Secure"], ["Deleted"], ["Old"], ["Young"]]
    assert lines(sort="oldest")[0] == ["Old"]
    assert lines(sort="expiring")[0] == ["Old"]
    assert lines(sort="newest")[-1] == ["Old"]
    assert lines(sort="object")[0] == ["Deleted"]


def test_the_oldest_is_shown_with_the_most_dangerous() -> None:
    ask("Young", hours_ago=1)
    ask("Old", hours_ago=9)
    ask("Secure", hours_ago=2, risk=Risk.SECURITY)
    assert lines(pageSize="1", andOldest="true") == [["Secure"], ["Old"]]
    assert lines(pageSize="2", andOldest="true") == [["Secure"], ["Old"]], "once"
    assert lines(pageSize="3", andOldest="true") == [["Secure"], ["Old"], ["Young"]]
    assert lines(pageSize="1") == [["Secure"]]


def test_pages_of_lines_leave_none_out() -> None:
    for number in range(7):
        for twin in "ab":
            ask(f"P{number}{twin}", call=f"call-{number}", hours_ago=number % 3)
    for sort in ("urgency", "oldest", "newest", "expiring", "object", "owner", "key"):
        seen: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            query = load_query(inbox.ListInbox, {"pageSize": "2", "sort": sort, **cursor})
            page = inbox.list_inbox(IN_CONSOLE, query=query)
            seen += [line["first"][0]["changeRequest"]["id"] for line in page["items"]]
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert len(seen) == len(set(seen)) == 7, sort


def test_the_filters() -> None:
    ask("Ada", risk=Risk.SECURITY, hours_ago=50, changes=(AttributeChange("title", (), ('"attribute": "sn"',)),))
    ask("Bea", caller={"person": BOB, "reason": "Ticket 4712"}, operation="users.disable")
    assert lines(q="ada") == [["Ada"]]
    assert lines(q="4712") == [["Bea"]]
    ask(r"Team C\+\+ Ä\3b", caller={"person": BOB, "reason": 'Über die "Neuen"'})
    for text in ("c++", "C++ ä;", 'über die "neuen"'):
        assert lines(q=text) == [[r"Team C\+\+ Ä\3b"]], text
    ChangeRequest.objects.filter(reason__startswith="Über").delete()
    assert lines(risk="security") == [["Ada"]]
    assert lines(owner="bob") == [["Bea"]]
    assert lines(key="crm", kind="user") == [["Ada"], ["Bea"]]
    assert lines(attribute="TITLE") == [["Ada"]]
    assert lines(attribute="sn") == [], "a value is no attribute"
    assert lines(olderThanHours="24") == [["Ada"]]
    for name, value in {"kind": "group", "operation": "users.delete", "key": "other", "q": "%"}.items():
        assert lines(IN_CONSOLE, **{name: value}) == []


def test_what_is_decided_or_overdue_does_not_wait() -> None:
    done, late = ask("Done"), ask("Late")
    ChangeRequest.objects.filter(id=done.id).update(status=Status.APPLIED)
    ChangeRequest.objects.filter(id=late.id).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert lines() == []
    assert lines(status="applied") == [["Done"]]
    assert len(lines(status="any")) == 2


def test_others_see_their_own_alone() -> None:
    ask("Mine")
    ask("His", caller={"person": BOB})
    assert lines(make_call(surface=Surface.REST, permissions=frozenset())) == [["Mine"]]
    assert lines(decidable="true", caller=ADA_IN_CONSOLE) == [["His"]]


def test_the_next_one_of_any_number() -> None:
    old, young, secure = ask("Old", hours_ago=99), ask("Young"), ask("Secure", risk=Risk.SECURITY)
    for number in range(210):
        ask(f"P{number}", call="batch", hours_ago=1)
    assert following() == "Secure"
    assert following(secure) == "Old"
    assert following(young) == "Secure", "after the last one the first"
    assert following(secure, backwards="true") == "Young"
    assert following(secure, leaveOut=str(old.id)) == "P0"
    assert following(secure, q="young") == "Young"
    assert following(young, q="young") is None
    assert inbox.find_next(IN_CONSOLE, query=load_query(inbox.FindNext, {}))["waiting"] == 213
    assert inbox.count_waiting(IN_CONSOLE) == {"waiting": 213, "security": 1, "assigned": 0}


def test_ones_own_and_those_approved_already_are_not_next() -> None:
    ask("Own", caller={"person": APPROVER})
    mine = ask("Approved")
    ChangeRequest.objects.filter(id=mine.id).update(first_approved_by_id=APPROVER.id)
    assert following() is None
    assert inbox.count_waiting(IN_CONSOLE)["waiting"] == 0


def test_a_thousand_cost_as_many_queries_as_ten() -> None:
    made = [ask(f"P{number}", call=f"call-{number % 70}") for number in range(10)]
    counts = []
    for more in (0, 990):
        facts = {field.attname: getattr(made[0], field.attname) for field in ChangeRequest._meta.concrete_fields}
        ChangeRequest.objects.bulk_create(
            ChangeRequest(**facts | {"id": UUID(int=made[0].id.int + 1 + number), **call_named(f"call-{number % 70}")})
            for number in range(more)
        )
        with CaptureQueriesContext(
            connection,
        ) as captured:
            lines(pageSize="50")
            following()
        counts.append(len(captured))
    assert counts[0] + 1 == counts[1] <= 13, "ten are on one page, so they are not counted"


def test_lines_are_found_by_their_call_without_statistics_of_the_table() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("PostgreSQL combines indexes by statistics that it may not have")
    for number in range(20):
        ask(f"P{number}", call="call-1")
    with CaptureQueriesContext(connection) as captured:
        lines()
    asked = next(query["sql"] for query in captured if "EXISTS" in query["sql"])
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {asked}")
        plan = str(cursor.fetchall())
    assert "approvals_by_call" in plan
    assert "(ends IS NULL)" not in plan, "by its index, or by looking at each"
