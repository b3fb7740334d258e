"""Asking back about a request, answering, and asking one person to decide: none of it decides anything."""

from typing import Any

import pytest

from approvals.models import Audience, ChangeRequest, Notice, Status
from approvals.review import notifications
from audit.models import OperationRecord
from core.shapes import load_query
from keys.models import Person
from operations.approvals.change_requests import inbox
from tests.approvals.proposals import IN_CONSOLE, hold
from tests.audit.calls import make_call
from tests.support.cast import Console, make_person
from tests.support.markup import markup_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def requester() -> Person:
    person = make_person("ada")
    Person.objects.filter(pk=person.pk).update(email="ada@example.test")
    return person


@pytest.fixture
def request_of_ada(requester: Person) -> ChangeRequest:
    caller = make_call()
    person = caller.person.__class__(id=requester.pk, username="ada", display_name="Ada")
    return hold(make_call(person=person))


def approver(username: str) -> Console:
    person = make_person(username, may=["approvals.decide_change"])
    Person.objects.filter(pk=person.pk).update(email=f"{username}@example.test")
    return Console(person)


def said(request: ChangeRequest) -> list[tuple[str, str]]:
    request.refresh_from_db()
    return [(each["by"], each["text"]) for each in request.comments or ()]


def test_a_question_and_its_answer(request_of_ada: ChangeRequest, requester: Person, mailoutbox: list[Any]) -> None:
    grace, path = approver("grace"), f"/rest/change-requests/{request_of_ada.id}/comment"
    assert grace.post(path, {"comment": "Which ticket?"}).status == 200
    assert Console(requester).post(path, {"comment": "4711"}).status == 200
    assert said(request_of_ada) == [("grace", "Which ticket?"), ("ada", "4711")]
    assert request_of_ada.status == Status.PENDING
    told = Notice.objects.filter(audience=Audience.COMMENTED).values_list("person__username", flat=True)
    assert sorted(told) == ["ada", "grace"]
    Notice.objects.update(due_at=request_of_ada.created_at)
    notifications.send_due()
    to_ada = next(message for message in mailoutbox if message.to == ["ada@example.test"])
    assert to_ada.subject == "[Directory gateway] Comment: Change e-mail of Ada"
    assert "grace: Which ticket?" in to_ada.body
    assert "new@example.test" not in to_ada.body, "values stay in the console"
    record = OperationRecord.objects.filter(operation="change-requests.comment").latest("id")
    assert record.changes[0]["after"] == ["grace: Which ticket?", "ada: 4711"]


def test_only_those_concerned_talk_and_only_while_it_waits(request_of_ada: ChangeRequest) -> None:
    path = f"/rest/change-requests/{request_of_ada.id}/comment"
    assert Console(make_person()).post(path, {"comment": "Hello"}).status == 404
    grace = approver("grace")
    assert grace.post(path, {"comment": " "}).status == 400
    ChangeRequest.objects.filter(id=request_of_ada.id).update(status=Status.REJECTED)
    assert grace.post(path, {"comment": "Late"}).code == "Approvals.AlreadyDecided"
    assert said(request_of_ada) == []


def test_for_bob(request_of_ada: ChangeRequest, requester: Person, mailoutbox: list[Any]) -> None:
    grace, bob = approver("grace"), approver("bob")
    path = f"/rest/change-requests/{request_of_ada.id}/assign"
    assert grace.post(path, {"username": "bob"}).status == 200
    request_of_ada.refresh_from_db()
    assert request_of_ada.assigned_to == "bob"
    Notice.objects.update(due_at=request_of_ada.created_at)
    notifications.send_due()
    assert [(message.to, message.subject) for message in mailoutbox] == [
        (["bob@example.test"], "[Directory gateway] For you to decide: Change e-mail of Ada")
    ]
    assert bob.get("/rest/change-requests/waiting-count").body == {"waiting": 1, "security": 1, "assigned": 1}
    assert grace.get("/rest/change-requests/waiting-count").body["assigned"] == 0
    assert len(bob.get("/rest/change-requests/inbox?mine=true").body["items"]) == 1
    assert grace.get("/rest/change-requests/inbox?mine=true").body["items"] == []

    for nobody in ("ada", "somebody", make_person().username):
        assert grace.post(path, {"username": nobody}).status == 400, nobody
    assert grace.post(path, {"username": None}).status == 200
    assert bob.get("/rest/change-requests/waiting-count").body["assigned"] == 0
    assert Console(requester).post(path, {"username": "bob"}).status == 403


def test_the_menu_tells_how_many_wait(request_of_ada: ChangeRequest, requester: Person) -> None:
    page = markup_of(approver("grace").get("/console/").body)
    assert '<span class="badge count security">1<span class="only-read-aloud">waits for your decision' in page
    assert "badge count" not in Console(requester).get("/console/").body.decode()


def test_a_line_tells_of_both(request_of_ada: ChangeRequest) -> None:
    comments = [{"by": "grace", "byId": 1, "at": "2026-01-01T00:00:00Z", "text": "Why?"}]
    ChangeRequest.objects.filter(id=request_of_ada.id).update(comments=comments, assigned_to="bob")
    (line,) = inbox.list_inbox(IN_CONSOLE, query=load_query(inbox.ListInbox, {}))["items"]
    assert line["first"][0]["assignedTo"] == "bob"
    assert line["first"][0]["comments"] == [{"by": "grace", "at": "2026-01-01T00:00:00Z", "text": "Why?"}]
