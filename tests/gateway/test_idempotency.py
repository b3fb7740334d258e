"""Idempotency keys when something goes wrong: whose a key is, and for how long."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError
from django.db.models import QuerySet
from django.utils import timezone

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from gateway.claims import LEASE, renewal
from gateway.models import KeptAnswer
from tests.directory.supervised import just_before_the_write
from tests.support.cast import Answer, Integration, make_connection, make_integration
from tests.support.directory import Directory
from tests.support.domain import Domain

pytestmark = pytest.mark.sqlite


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


@pytest.fixture
def integration(connection: DirectoryConnection) -> Integration:
    return make_integration(connection)


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(parent=organizational_unit)


def change(integration: Integration, ada: UUID) -> Answer:
    return integration.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}, Idempotency_Key="one")


def abandon_first(integration: Integration, ada: UUID, *, last_sign_of_life: timedelta) -> None:
    """Leave the claim of a request whose process was killed."""
    assert change(integration, ada).status == 200
    KeptAnswer.objects.update(status=None, body="", lease_until=timezone.now() - last_sign_of_life + LEASE)


def test_a_killed_request_keeps_its_key_for_half_a_minute(integration: Integration, ada: UUID) -> None:
    abandon_first(integration, ada, last_sign_of_life=timedelta(seconds=28))
    refused = change(integration, ada)
    assert (refused.status, refused.code) == (409, "Idempotency.InProgress")


def test_then_a_retry_is_carried_out(integration: Integration, ada: UUID, directory: Directory) -> None:
    abandon_first(integration, ada, last_sign_of_life=timedelta(seconds=31))
    directory.modify(ada, title="Analyst")
    assert change(integration, ada).status == 200
    assert directory.text(ada, "title") == "Countess"
    assert change(integration, ada).headers["Idempotency-Replayed"] == "true"


def test_what_the_killed_request_did_is_not_done_again(integration: Integration, ada: UUID) -> None:
    abandon_first(integration, ada, last_sign_of_life=timedelta(seconds=31))
    assert change(integration, ada).status == 200
    assert OperationRecord.objects.filter(operation="users.update").count() == 1


def test_a_slow_request_keeps_its_key(integration: Integration, ada: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def grow_old() -> None:
        KeptAnswer.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        renewal.renew()
        seen.append(change(integration, ada))

    just_before_the_write(monkeypatch, grow_old)
    assert change(integration, ada).status == 200
    assert [(answer.status, answer.code) for answer in seen] == [(409, "Idempotency.InProgress")]


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    integration: Integration, ada: UUID, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(queryset: QuerySet, **fields: Any) -> int:
        if queryset.model is KeptAnswer:
            raise OperationalError("the connection is lost")
        return original(queryset, **fields)

    original = QuerySet.update
    monkeypatch.setattr(QuerySet, "update", fail)
    answer = change(integration, ada)
    assert answer.status == 200
    assert directory.text(ada, "title") == "Countess"
    assert change(integration, ada).code == "Idempotency.InProgress"


def test_a_key_given_back_is_free(integration: Integration, ada: UUID, directory: Directory, domain: Domain) -> None:
    domain.controller.stop()
    try:
        assert change(integration, ada).status == 503
    finally:
        domain.controller.start()
        directory.reconnect()
    assert not KeptAnswer.objects.exists()
