"""People schedule changes in the console, see what is to come, and move its end."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from core.database import shared_clock
from directory.models import DirectoryConnection
from gateway import tasks
from lab.directory import Directory
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_person

pytestmark = pytest.mark.django_db


@pytest.fixture
def person(connection: DirectoryConnection) -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def browser(person: Console) -> PlainBrowser:
    return PlainBrowser(person)


@pytest.fixture
def bob(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user(parent=organizational_unit)


def field_value(**time: float) -> str:
    """What a browser sends for a datetime-local field: minutes, in UTC."""
    return f"{shared_clock.now() + timedelta(**time):%Y-%m-%dT%H:%M}"


@contextmanager
def later(monkeypatch: pytest.MonkeyPatch, **time: float) -> Iterator[None]:
    with monkeypatch.context() as clock:
        clock.setattr(shared_clock._offset, "measure", lambda _: None)
        clock.setattr(shared_clock._offset, "value", timedelta(**time))
        yield


def test_disabled_until_friday(
    browser: PlainBrowser, bob: UUID, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = browser.open(f"/console/directory/objects/{bob}/disable")
    page.press("Disable", revertAt=field_value(minutes=-5))
    assert "is in the past" in page.text
    page.press("Disable", revertAt=field_value(days=3))
    assert "Ends by itself:" in page.text
    assert not directory.is_enabled(bob)
    end = ChangeRequest.objects.get(ends__isnull=False)
    with later(monkeypatch, seconds=12):
        tasks.take_up_scheduled()
    listed = browser.open("/console/scheduled/")
    assert "end of a temporary change" in listed.text
    page = browser.open(f"/console/changes/{end.id}")
    page.press("Move the end", until=field_value(days=5))
    assert "The end was moved." in page.text
    end.refresh_from_db()
    assert end.due_at is not None
    assert end.due_at > shared_clock.now() + timedelta(days=4)
    page = browser.open(f"/console/changes/{end.id}").press("End it now")
    assert directory.is_enabled(bob)
    assert "Nothing is scheduled." in browser.open("/console/scheduled/").text


def test_disabled_on_the_thirtieth(browser: PlainBrowser, bob: UUID, directory: Directory) -> None:
    page = browser.open(f"/console/directory/objects/{bob}/disable")
    page.press("Disable", applyAt=field_value(days=2))
    request = ChangeRequest.objects.get()
    assert page.address == f"/console/changes/{request.id}"
    assert "Scheduled: the change will be made at its scheduled time." in page.text
    assert "It is scheduled for" in page.text
    assert directory.is_enabled(bob)
    assert "Scheduled:" in browser.open(f"/console/directory/objects/{bob}").text


def test_the_overdue_come_first(browser: PlainBrowser, bob: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    browser.open(f"/console/directory/objects/{bob}/disable").press("Disable", revertAt=field_value(days=1))
    ChangeRequest.objects.update(digest="altered")
    with later(monkeypatch, days=2):
        tasks.take_up_scheduled()
    assert "A temporary change should have ended by now." in browser.open("/console/changes/").text
    assert "These should have ended by now." in browser.open("/console/scheduled/").text
    request = ChangeRequest.objects.get()
    assert "This should have ended at" in browser.open(f"/console/changes/{request.id}").text
    assert "Should have ended by now:" in browser.open(f"/console/directory/objects/{bob}").text


def test_the_help_desk_sees_what_ends(
    person: Console, bob: UUID, directory: Directory, organizational_unit: str
) -> None:
    group = directory.add_group(parent=organizational_unit)
    body = {"add": [str(bob)]}
    given = person.post(f"/rest/ad/groups/{group}/members", body, X_Revert_After="PT8H")
    assert given.status == 200
    help_desk = PlainBrowser(Console(make_person(may=["directory.read_object"])))
    text = help_desk.open(f"/console/directory/objects/{bob}").text
    assert "Ends by itself:" in text
    assert person.person.username in text
