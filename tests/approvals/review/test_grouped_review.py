"""Several requests together: what they have in common, what stands out, and one decision of each by itself."""

from datetime import timedelta
from typing import Any

import pytest

from approvals.models import ChangeRequest, Status
from audit.models import OperationRecord
from core.call import Call, PersonRef, Schedule
from core.errors import InvalidRequest
from core.operation import Risk
from core.shapes import load_body, load_query
from directory.shapes.proposal import AttributeChange, Target
from keys.sign_in.confirmation import NotConfirmed
from operations.approvals.change_requests import grouped_review
from tests.approvals.proposals import APPROVER, IN_CONSOLE, hold
from tests.audit.calls import call_named, make_call

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

BOB = PersonRef(id=8_000_008, username="bob", display_name="Bob")


def department(value: str) -> AttributeChange:
    return AttributeChange("department", ("Sales",), (value,))


def ask(name: str, *changes: AttributeChange, risk: Risk = Risk.ORDINARY, call: str = "batch", **caller: Any) -> Any:
    target = Target(id=None, kind="user", distinguished_name=f"CN={name},DC=corp")
    request = hold(
        make_call(**call_named(call), **caller), target=target, changes=changes or (department("Marketing"),)
    )
    ChangeRequest.objects.filter(id=request.id).update(risk=risk)
    return request


def read(caller: Call = IN_CONSOLE, **parameters: str) -> Any:
    return grouped_review.read_together(caller, query=load_query(grouped_review.ReadTogether, parameters))


def decide(decision: str, *requests: ChangeRequest, caller: Call = IN_CONSOLE, **more: Any) -> Any:
    chosen = [{"id": str(each.id), "digest": each.digest} for each in requests]
    body = {"decision": decision, "changeRequests": chosen, **more}
    return grouped_review.decide_together(caller, body=load_body(grouped_review.DecideTogether, body))


def standing_out(found: Any) -> dict[str, list[str]]:
    return {
        item["changeRequest"]["target"]["distinguishedName"][3:-8]: item["differs"]
        for item in found["items"]
        if item["differs"]
    }


def test_what_lasts_longer_stands_out() -> None:
    alike = [ask(f"P{number}", schedule=Schedule(revert_after=timedelta(hours=8))) for number in range(5)]
    ask("Longer", schedule=Schedule(revert_after=timedelta(days=8)))
    ask("Always")
    found = read(groupOf=str(alike[0].id))
    assert standing_out(found) == {
        "Longer": ["for 8 days instead of for 8 hours"],
        "Always": ["at once and for good instead of for 8 hours"],
    }


def test_protected_objects_and_other_reasons_stand_out() -> None:
    alike = [ask(f"P{number}") for number in range(5)]
    ask("Why", reason="Ticket 4712")
    ChangeRequest.objects.filter(id=ask("Protected").id).update(protected=True)
    assert standing_out(read(groupOf=str(alike[0].id))) == {
        "Why": ["another reason"],
        "Protected": ["a protected object"],
    }


def test_those_of_one_call_and_what_stands_out() -> None:
    alike = [ask(f"P{number}") for number in range(20)]
    ask("Other value", department("Board"))
    ask("More", department("Marketing"), AttributeChange("manager", (), ("CN=Eve,DC=corp",)), risk=Risk.SECURITY)
    ask("Less", AttributeChange("title", (), ("Clerk",)))
    ask("Another call", call="other")
    found = read(groupOf=str(alike[3].id))
    assert found["total"] == 23
    assert standing_out(found) == {
        "Other value": ["Department: Board instead of Marketing"],
        "More": ["security instead of ordinary", "also changes Manager"],
        "Less": ["does not change Department", "also changes Job title"],
    }
    assert [bool(item["differs"]) for item in found["items"][:4]] == [True, True, True, False], "those first"
    assert found["union"][0] == {
        "attribute": "department",
        "label": "Department",
        "count": 22,
        "values": [{"value": "Marketing", "count": 21}, {"value": "Board", "count": 1}],
        "distinct": 2,
        "current": [{"value": "Sales", "count": 22}],
        "distinctCurrent": 1,
    }


def test_whom_a_change_overwrites_and_whom_a_deletion_loses() -> None:
    def held(department: str) -> AttributeChange:
        return AttributeChange("department", (department,), ("Sales",))

    requests = [ask(f"P{number}", held("Marketing")) for number in range(12)]
    ask("Lawyer", held("Legal"))
    found = read(groupOf=str(requests[0].id))
    assert standing_out(found) == {"Lawyer": ["Department so far: Legal instead of Marketing"]}
    assert found["union"][0]["current"] == [{"value": "Marketing", "count": 12}, {"value": "Legal", "count": 1}]

    def gone(name: str, group: str) -> Any:
        lost = AttributeChange("memberOf", (f"CN={group},DC=corp",), ())
        request = ask(name, AttributeChange("distinguishedName", (f"CN={name},DC=corp",), ()), lost, call="gone")
        ChangeRequest.objects.filter(id=request.id).update(operation="users.delete")
        return request

    leavers = [gone(f"L{number}", "Staff") for number in range(4)]
    gone("Chair", "Board")
    found = read(groupOf=str(leavers[0].id))
    assert standing_out(found) == {"Chair": ["Groups so far: Board instead of Staff"]}


def test_values_that_are_different_for_everybody_are_no_exception() -> None:
    requests = [ask(f"P{number}", AttributeChange("employeeID", (), (str(number),))) for number in range(9)]
    found = read(groupOf=str(requests[0].id))
    assert standing_out(found) == {}
    assert (found["union"][0]["distinct"], len(found["union"][0]["values"])) == (9, 3)


def test_chosen_ones_and_what_may_be_done_with_each() -> None:
    theirs, own, done = ask("A", call="a"), ask("B", call="b", person=APPROVER), ask("C", call="c")
    ChangeRequest.objects.filter(id=done.id).update(status=Status.APPLIED)
    found = read(ids=f"{theirs.id},{own.id},{done.id}")
    may = {item["changeRequest"]["id"]: (item["mayApprove"], item["hindrance"]) for item in found["items"]}
    assert may == {
        str(theirs.id): (True, None),
        str(own.id): (False, "It is your own request."),
        str(done.id): (False, "It does not wait any more."),
    }
    assert found["statuses"] == {"pending": 2, "applied": 1}
    stranger = make_call(person=BOB, permissions=frozenset())
    assert read(stranger, ids=str(theirs.id))["items"] == [], "what one may not see is not there"


@pytest.mark.django_db(transaction=True)
def test_each_is_decided_and_recorded_by_itself(enqueued: list[Any]) -> None:
    first, second, own = ask("A"), ask("B"), ask("Own", person=APPROVER)
    changed, gone = ask("Changed"), ask("Gone")
    ChangeRequest.objects.filter(id=gone.id).update(status=Status.CANCELLED)
    changed.digest = "0" * 64
    answer = decide("approve", first, second, own, changed, gone, second, comment="Agreed with HR")
    assert (answer["total"], answer["succeeded"], answer["failed"]) == (5, 2, 3)
    codes = [(item["problem"] or {}).get("code") for item in answer["results"]]
    assert codes == [None, None, "Approvals.OwnRequest", "Approvals.Changed", "Approvals.NotPending"]
    kept = ChangeRequest.objects.in_bulk([first.id, second.id, changed.id])
    assert [kept[each.id].status for each in (first, second, changed)] == ["approved", "approved", "pending"]
    assert {kept[each.id].comment for each in (first, second)} == {"Agreed with HR"}
    assert enqueued == [("gateway.tasks.apply_change_request", [str(each.id)]) for each in (first, second)]
    records = OperationRecord.objects.filter(operation="change-requests.approve").order_by("id")
    assert list(records.values_list("target_id", "outcome", "code")) == [
        (first.id, "succeeded", None),
        (second.id, "succeeded", None),
        (own.id, "failed", "Approvals.OwnRequest"),
        (changed.id, "failed", "Approvals.Changed"),
        (gone.id, "failed", "Approvals.NotPending"),
    ]


def test_a_rejection_needs_a_comment_and_what_was_shown() -> None:
    first, second = ask("A"), ask("B")
    with pytest.raises(InvalidRequest):
        decide("reject", first, second, comment=" ")
    second.digest = "0" * 64
    answer = decide("reject", first, second, comment="No ticket")
    assert [item["status"] for item in answer["results"]] == ["rejected", None]
    assert ChangeRequest.objects.get(id=first.id).comment == "No ticket"
    assert ChangeRequest.objects.get(id=second.id).status == "pending"


def test_the_second_factor_is_asked_for_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def confirm(call: Call, body: grouped_review.DecideTogether) -> Call:
        asked.append(body.code)
        if body.code != "123456":
            raise NotConfirmed
        return call

    monkeypatch.setattr(grouped_review, "confirm", confirm)
    first, second = ask("A"), ask("B")
    with pytest.raises(NotConfirmed):
        decide("approve", first, second, code="654321")
    assert ChangeRequest.objects.filter(status="pending").count() == 2
    assert decide("approve", first, second, code="123456")["succeeded"] == 2
    assert asked == ["654321", "123456"]
