"""The operations log in Django admin."""

from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from audit import log
from audit.models import OperationRecord
from keys.models import Person
from tests.audit.calls import CALL
from tests.support.cast import make_person

pytestmark = pytest.mark.django_db

LIST = "admin:audit_operationrecord_changelist"


@pytest.fixture
def record() -> OperationRecord:
    return log.record_intent(
        CALL,
        log.Intent(
            operation="users.update",
            target=log.TargetRef(id=uuid4(), kind="user", distinguished_name="CN=Ada,DC=corp"),
            changes=[{"attribute": "mail", "before": ["<old>"], "after": ["new", "newer"]}],
        ),
    )


def console_of(*permissions: str, superuser: bool = False) -> Client:
    person = make_person(may=permissions, superuser=superuser)
    Person.objects.filter(pk=person.pk).update(is_staff=True)
    client = Client()
    client.force_login(person)
    return client


def test_looking_at_it(record: OperationRecord) -> None:
    console = console_of("audit.read_log")
    html = console.get(reverse(LIST), {"q": "ada", "outcome__exact": "pending"}).content.decode()
    assert "users.update" in html
    assert "CN=Ada,DC=corp" in html
    for text in (str(record.target_id), "request-1", "not a uuid"):
        found = console.get(reverse(LIST), {"q": text})
        assert found.status_code == 200
        assert ("users.update" in found.content.decode()) is (text != "not a uuid")
    page = console.get(reverse("admin:audit_operationrecord_change", args=[record.id])).content.decode()
    assert "&lt;old&gt;" in page
    assert "new<br>newer" in page
    assert 'name="_save"' not in page


def test_nothing_is_changed_even_by_a_superuser(record: OperationRecord) -> None:
    console = console_of(superuser=True)
    assert console.get(reverse("admin:audit_operationrecord_add")).status_code == 403
    assert console.post(reverse("admin:audit_operationrecord_change", args=[record.id]), {}).status_code == 403
    assert console.post(reverse("admin:audit_operationrecord_delete", args=[record.id])).status_code == 403


def test_only_for_who_may_read_it(record: OperationRecord) -> None:
    console = console_of("audit.view_operationrecord")
    assert console.get(reverse(LIST)).status_code == 403
    assert console.get(reverse("admin:audit_operationrecord_change", args=[record.id])).status_code == 403
