"""Deciding in Django admin."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from approvals import queue
from approvals.models import ChangeRequest
from audit.models import OperationRecord
from directory.shapes.proposal import AttributeChange
from keys.models import Person
from tests.approvals.proposals import SECURITY, hold, make_proposal
from tests.audit.calls import CALL, make_call
from tests.support.cast import make_person
from tests.support.configuration import Configure
from tests.support.markup import markup_of, text_of

pytestmark = pytest.mark.django_db

LIST = "admin:approvals_changerequest_changelist"


@pytest.fixture
def approver() -> Person:
    person = make_person("grace", may=["approvals.decide_change", "directory.read_object"])
    Person.objects.filter(pk=person.pk).update(is_staff=True)
    return person


def console_of(person: Person, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(person)
    return client


@pytest.fixture
def console(approver: Person) -> Client:
    return console_of(approver)


def page_of(change_request: ChangeRequest) -> str:
    return reverse("admin:approvals_changerequest_change", args=[change_request.id])


def decide(console: Client, change_request: ChangeRequest, decision: str, **form: str) -> Any:
    url = reverse(f"admin:approvals_changerequest_{decision}", args=[change_request.id])
    return console.post(url, {"digest": change_request.digest, "comment": "", **form}, follow=True)


def test_the_page_shows_both_sides(console: Client) -> None:
    held = queue.hold(
        CALL,
        operation="users.update",
        arguments={},
        query={},
        document={},
        proposal=make_proposal(AttributeChange("member", ("stays", "<b>goes</b>"), ("stays", "comes"))),
        assessment=SECURITY,
    )
    html = console.get(page_of(held)).content.decode()
    assert "The key crm of ada" in text_of(html)
    assert "CN=Ada,OU=Sales,DC=corp" in html
    assert "Ticket 4711" in html
    assert "<del>&lt;b&gt;goes&lt;/b&gt;</del>" in html
    assert "<ins>comes</ins>" in html
    assert "<del>stays" not in html
    assert held.digest in html
    assert not re.search(r'style="|<script>|onclick', html.partition('id="content-main"')[2])


def test_what_waits_comes_first(console: Client) -> None:
    waiting, ended = hold(), hold()
    ChangeRequest.objects.filter(id=ended.id).update(status="rejected")
    html = markup_of(console.get(reverse(LIST)).content)
    assert html.index(str(waiting.id)) < html.index(str(ended.id))
    assert str(ended.id) not in console.get(reverse(LIST), {"status__exact": "pending"}).content.decode()


def test_approving(console: Client, approver: Person) -> None:
    held = hold()
    answer = decide(console, held, "approve", comment="  Seen with HR ")
    assert "Approved" in answer.content.decode()
    held.refresh_from_db()
    assert (held.status, held.decided_by, held.comment) == ("approved", "grace", "Seen with HR")
    record = OperationRecord.objects.get()
    assert (record.operation, record.outcome, record.owner) == ("change-requests.approve", "succeeded", "grace")
    assert (record.surface, record.target_id) == ("rest", held.id)
    assert 'value="Approve"' not in answer.content.decode()


def test_a_rejection_says_why(console: Client) -> None:
    held = hold()
    answer = decide(console, held, "reject", comment="   ")
    assert "Say why" in answer.content.decode()
    held.refresh_from_db()
    assert held.status == "pending"
    decide(console, held, "reject", comment="No ticket")
    held.refresh_from_db()
    assert (held.status, held.comment) == ("rejected", "No ticket")


def test_another_digest_is_refused_and_recorded(console: Client) -> None:
    held = hold()
    answer = decide(console, held, "approve", digest="another")
    assert "not the one that was shown" in answer.content.decode()
    held.refresh_from_db()
    assert held.status == "pending"
    assert OperationRecord.objects.get().code == "Approvals.Changed"


def test_nobody_decides_their_own(console: Client, approver: Person) -> None:
    held = hold(make_call(person=CALL.person.__class__(id=approver.pk, username="grace", display_name="Grace")))
    html = markup_of(console.get(page_of(held)).content)
    assert "your own request" in html
    assert 'value="Approve"' not in html
    decide(console, held, "approve")
    held.refresh_from_db()
    assert held.status == "pending"


def test_only_for_who_may_decide() -> None:
    held = hold()
    person = make_person("bob", may=["approvals.view_changerequest", "audit.read_log"])
    Person.objects.filter(pk=person.pk).update(is_staff=True)
    console = console_of(person)
    assert console.get(reverse(LIST)).status_code == 403
    assert console.get(page_of(held)).status_code == 403
    assert decide(console, held, "approve").status_code == 403
    held.refresh_from_db()
    assert held.status == "pending"
    outside = make_person("eve", may=["approvals.decide_change"])
    for client in (Client(), console_of(outside)):
        assert "login" in decide(client, held, "approve").redirect_chain[0][0]
    held.refresh_from_db()
    assert held.status == "pending"


def test_nothing_is_edited_and_only_forms_of_our_own_decide(console: Client, approver: Person) -> None:
    held = hold()
    assert console.get(reverse("admin:approvals_changerequest_add")).status_code == 403
    assert console.get(reverse("admin:approvals_changerequest_delete", args=[held.id])).status_code == 403
    assert console.post(page_of(held), {"status": "approved"}).status_code in (200, 403, 405)
    strict = console_of(approver, enforce_csrf_checks=True)
    assert decide(strict, held, "approve").status_code == 403
    assert console.get(reverse("admin:approvals_changerequest_approve", args=[held.id])).status_code == 405
    held.refresh_from_db()
    assert held.status == "pending"


def test_two_approvals(console: Client, approver: Person, configure: Configure) -> None:
    configure("Approvals", ProtectedNeedsTwo=True)
    held = hold(protected=True)
    assert "Two different people have to approve it." in console.get(page_of(held)).content.decode()
    html = markup_of(decide(console, held, "approve", comment="Fine with me").content)
    assert "Somebody else has to approve it too." in html
    assert re.search(r"First approval.*by grace: Fine with me", html)
    assert 'value="Approve"' not in html
    assert 'value="Reject"' in html
    assert "approved once, by grace" in console.get(reverse(LIST)).content.decode()
    assert "decided already" in decide(console, held, "approve").content.decode()
    second = make_person("alan", may=["approvals.decide_change"])
    Person.objects.filter(pk=second.pk).update(is_staff=True)
    html = markup_of(decide(console_of(second), held, "approve").content)
    assert "A worker makes the change now." in html
    assert "by alan" in html
    held.refresh_from_db()
    assert (held.status, held.approvers) == ("approved", "grace, alan")


def test_it_says_why(console: Client) -> None:
    held = hold()
    html = markup_of(console.get(page_of(held)).content)
    assert "This is a security change: it writes mail." in html
    assert f"{held.expires_at:%Y-%m-%d %H:%M}" in console.get(reverse(LIST)).content.decode()
    ChangeRequest.objects.filter(id=held.id).update(risk="ordinary", risk_reasons=[])
    assert "asks before every change" in console.get(page_of(held)).content.decode()


def test_a_list_cannot_be_made_to_show_markup(console: Client) -> None:
    held = hold()
    ChangeRequest.objects.filter(id=held.id).update(target_dn="CN=<script>x", requester="<b>ada", key_name="<i>")
    html = markup_of(console.get(reverse(LIST)).content)
    assert "CN=&lt;script&gt;x" in html
    assert "&lt;b&gt;ada<br>key &lt;i&gt;" in html
