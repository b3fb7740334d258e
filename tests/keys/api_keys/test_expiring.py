"""The API keys that want looking at."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from keys.models import ApiKey
from tests.support.cast import Console, make_integration, make_person

pytestmark = pytest.mark.django_db

PATH = "/rest/api-keys/due"


@pytest.fixture
def console() -> Console:
    return Console(make_person(may=["keys.view_apikey"]))


def in_days(days: float) -> datetime:
    return timezone.now() + timedelta(days=days)


def make_key(name: str, **fields: Any) -> ApiKey:
    """A key in use, unless something else is said."""
    key = make_integration(None, may=[]).key
    for field, value in {"name": name, "last_used_at": timezone.now(), **fields}.items():
        setattr(key, field, value)
    key.save()
    return key


def names(found: dict[str, Any]) -> list[str]:
    return [item["name"] for item in found["items"]]


def test_keys_about_to_expire(console: Console) -> None:
    make_key("in a month", expires_at=in_days(29.9))
    soon = make_key("soon", expires_at=in_days(0.1))
    make_key("later", expires_at=in_days(30.1))
    make_key("over", expires_at=in_days(-0.1))
    make_key("never")
    make_key("revoked", expires_at=in_days(1), revoked_at=timezone.now())
    expiring = console.get(PATH).body["expiring"]
    assert (expiring["total"], names(expiring)) == (2, ["soon", "in a month"])
    assert expiring["items"][0] == {
        "id": str(soon.id),
        "name": "soon",
        "owner": soon.owner.username,
        "createdAt": soon.created_at.isoformat().replace("+00:00", "Z"),
        "expiresAt": soon.expires_at.isoformat().replace("+00:00", "Z"),
        "lastUsedAt": soon.last_used_at.isoformat().replace("+00:00", "Z"),
    }


def test_keys_that_nobody_uses(console: Console) -> None:
    make_key("idle", last_used_at=in_days(-90.1))
    make_key("longer", last_used_at=in_days(-200))
    make_key("used", last_used_at=in_days(-89.9), created_at=in_days(-300))
    make_key("never used", last_used_at=None, created_at=in_days(-100))
    make_key("new", last_used_at=None)
    make_key("over", last_used_at=in_days(-100), expires_at=in_days(-1))
    unused = console.get(PATH).body["unused"]
    assert (unused["total"], names(unused)) == (3, ["longer", "never used", "idle"])


def test_of_very_many_the_first(console: Console) -> None:
    for number in range(22):
        make_key(f"key {number}", expires_at=in_days(29 - number))
    expiring = console.get(PATH).body["expiring"]
    assert (expiring["total"], names(expiring)) == (22, [f"key {number}" for number in range(21, 1, -1)])


def test_only_in_the_console_and_for_who_may_see_keys() -> None:
    answer = Console(make_person(may=["audit.read_log"])).get(PATH)
    assert (answer.status, answer.code) == (403, "Auth.Forbidden")
    assert make_integration(None).get("/api/api-keys/due").status == 404
