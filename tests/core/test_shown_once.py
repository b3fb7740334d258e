"""What is shown once: to its own page and session alone, for a few minutes, and encrypted until then."""

from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.sessions.models import Session
from django.db import connection as database
from django.http import HttpRequest
from django.test import RequestFactory

from core import shown_once
from gateway import tasks
from gateway.models import ShownOnce
from keys.sign_in.sessions import SessionStore
from tests.support.cast import Console, make_integration, make_person

pytestmark = pytest.mark.django_db

PAGE = "/console/keys/1/value"
SECRET = "Correct-Horse-9"


def request_for(address: str, session: str = "a-session", method: str = "GET") -> HttpRequest:
    request = RequestFactory().generic(method, address)
    request.session = SessionStore(session)
    return request


def keep(value: Any = SECRET, *, session: str = "a-session") -> str:
    return shown_once.keep(request_for("/console/keys/1/rotate", session, "POST"), PAGE, value)


def test_it_works() -> None:
    address = keep({"value": SECRET})
    assert SECRET not in address
    assert shown_once.take(request_for(address)) == {"value": SECRET}
    assert shown_once.take(request_for(address)) is None
    assert not ShownOnce.objects.exists()


def test_two_tabs_get_their_own() -> None:
    first, second = keep("one"), keep("two")
    assert shown_once.take(request_for(second)) == "two"
    assert shown_once.take(request_for(first)) == "one"


def test_nobody_else_gets_it() -> None:
    address = keep()
    parameter = address.partition("?")[2]
    for other in (
        request_for(address, "another-session"),
        request_for(f"/console/account?{parameter}"),
        request_for(f"{PAGE}?shown=x"),
        request_for(PAGE),
        request_for(address, method="POST"),
    ):
        assert shown_once.take(other) is None
    assert shown_once.take(request_for(address)) == SECRET


def test_it_is_there_for_some_minutes() -> None:
    address = keep()
    ShownOnce.objects.update(expires_at=ShownOnce.objects.get().expires_at - shown_once.LIFETIME - timedelta(seconds=1))
    assert shown_once.take(request_for(address)) is None
    tasks.sweep()
    assert not ShownOnce.objects.exists()
    keep()
    tasks.sweep()
    assert ShownOnce.objects.exists()


def test_it_is_under_the_gateways_keys_alone(settings: Any) -> None:
    address = keep()
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    assert shown_once.take(request_for(address)) is None


def test_the_database_holds_it_encrypted() -> None:
    console = Console(make_person(superuser=True))
    key = make_integration(None, owner=console.person).key
    address = console.submit(f"/console/keys/{key.id}/rotate", grace="0").headers["Location"]
    with database.cursor() as cursor:
        cursor.execute("SELECT row::text FROM gateway_shownonce AS row")
        [(kept,)] = cursor.fetchall()
    sessions = [session.get_decoded() for session in Session.objects.all()]
    page = console.get(address).body.decode()
    value = page.partition('id="key-value"')[2].partition('value="')[2].partition('"')[0]
    assert value.startswith("dgk_")
    assert value not in f"{kept} {sessions} {address}"
