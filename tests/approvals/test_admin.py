"""Change requests in Django admin: to look at; they are decided in the console."""

import pytest
from django.test import Client
from django.urls import reverse

from approvals.models import ChangeRequest
from keys.models import Person
from tests.approvals.proposals import hold
from tests.support.cast import make_person
from tests.support.markup import markup_of

pytestmark = pytest.mark.django_db

LIST = "admin:approvals_changerequest_changelist"


@pytest.fixture
def console() -> Client:
    return console_of(make_person("grace", may=["approvals.decide_change", "directory.read_object"]))


def console_of(person: Person) -> Client:
    Person.objects.filter(pk=person.pk).update(is_staff=True)
    client = Client()
    client.force_login(person)
    return client


def page_of(change_request: ChangeRequest) -> str:
    return reverse("admin:approvals_changerequest_change", args=[change_request.id])


def test_it_works(console: Client) -> None:
    held = hold()
    html = console.get(page_of(held)).content.decode()
    for text in ("CN=Ada,OU=Sales,DC=corp", "Ticket 4711", f"/console/changes/{held.id}"):
        assert text in html
    assert held.input not in html


def test_what_waits_comes_first(console: Client) -> None:
    waiting, ended = hold(), hold()
    ChangeRequest.objects.filter(id=ended.id).update(status="rejected")
    html = markup_of(console.get(reverse(LIST)).content)
    assert html.index(str(waiting.id)) < html.index(str(ended.id))
    assert str(ended.id) not in console.get(reverse(LIST), {"status__exact": "pending"}).content.decode()


def test_only_for_who_may_decide() -> None:
    held = hold()
    console = console_of(make_person("bob", may=["approvals.view_changerequest", "audit.read_log"]))
    assert console.get(reverse(LIST)).status_code == 403
    assert console.get(page_of(held)).status_code == 403


def test_nothing_is_edited_or_decided(console: Client) -> None:
    held = hold()
    assert console.get(reverse("admin:approvals_changerequest_add")).status_code == 403
    assert console.get(reverse("admin:approvals_changerequest_delete", args=[held.id])).status_code == 403
    assert console.post(page_of(held), {"status": "approved"}).status_code == 403
    held.refresh_from_db()
    assert held.status == "pending"


def test_a_list_cannot_be_made_to_show_markup(console: Client) -> None:
    held = hold()
    ChangeRequest.objects.filter(id=held.id).update(target_dn="CN=<script>x", requester="<b>ada", key_name="<i>")
    html = markup_of(console.get(reverse(LIST)).content)
    assert "CN=&lt;script&gt;x" in html
    assert "&lt;b&gt;ada<br>key &lt;i&gt;" in html
