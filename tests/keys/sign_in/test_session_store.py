"""What the database holds of a session is good for nothing in a browser."""

from collections.abc import Iterator
from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from keys.models import AccessToken, PersonSession
from tests.support.cast import PASSWORD, Console, make_person

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]


WRITTEN_BY_MIGRATIONS = {"auth_permission", "django_content_type", "django_migrations"}


def stored_values() -> Iterator[str]:
    """Every value that was stored since the migrations, as text."""
    with connection.cursor() as cursor:
        for table in set(connection.introspection.table_names()) - WRITTEN_BY_MIGRATIONS:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608 - of our own tables
            for row in cursor.fetchall():
                yield from map(str, row)


def signed_in(cookie: str) -> bool:
    browser = Client()
    browser.cookies["sessionid"] = cookie
    return browser.get("/rest/session").status_code == 200


@pytest.fixture
def console() -> Console:
    """Somebody who has done with their session whatever notes its key."""
    console = Console(make_person(may=["directory.read_object"]))
    assert console.post("/rest/session/access-token").status == 201
    assert console.get("/rest/sessions").status == 200
    return console


def test_no_table_holds_the_key_of_a_cookie(console: Console) -> None:
    cookie = console.client.cookies["sessionid"].value
    assert signed_in(cookie)
    assert not [value for value in stored_values() if cookie in value]


def test_nothing_stored_is_a_cookie(console: Console) -> None:
    keys = set(Session.objects.values_list("session_key", flat=True))
    assert keys == set(PersonSession.objects.values_list("session_key", flat=True))
    assert keys == set(AccessToken.objects.values_list("session_key", flat=True))
    candidates = {value for value in stored_values() if 16 <= len(value) <= 200 and value.isascii()}
    assert keys < candidates
    assert not [value for value in candidates if signed_in(value)]


def test_a_session_goes_on_with_a_new_password_and_ends_at_sign_out(console: Console) -> None:
    first = console.client.cookies["sessionid"].value
    new = "a longer one 1"
    assert console.submit("/console/account/password", current=PASSWORD, new=new, again=new).status == 302
    second = console.client.cookies["sessionid"].value
    assert (signed_in(first), signed_in(second)) == (False, True)
    assert not [value for value in stored_values() if second in value]
    assert PersonSession.objects.count() == Session.objects.count() == 1
    console.token = console.client.cookies["csrftoken"].value
    assert console.call("DELETE", "/rest/session").status == 204
    assert not signed_in(second)
    assert (PersonSession.objects.count(), Session.objects.count()) == (0, 0)


def test_sessions_of_before_are_ended() -> None:
    migration = import_module("keys.migrations.0006_sessions_by_digest")
    console = Console(make_person(may=[]))
    token = console.post("/rest/session/access-token").body["accessToken"]
    migration.end_all_sessions(apps, None)
    assert not signed_in(console.client.cookies["sessionid"].value)
    assert Client().get("/api/me", HTTP_AUTHORIZATION=f"Bearer {token}").status_code == 401
