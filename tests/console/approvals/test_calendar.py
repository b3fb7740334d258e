"""What is scheduled, as a calendar program reads it at a secret address, and what others get there."""

from datetime import UTC
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import pytest
from django.test import Client
from icalendar import Calendar

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from audit.read_buffer import reads
from core.configuration_sections import RateLimit
from directory.models import DirectoryConnection
from keys import calendar_addresses
from keys.models import CalendarAddress
from lab.directory import Directory, random_name
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, as_scopes, make_person
from tests.support.configuration import Configure

pytestmark = [pytest.mark.django_db, pytest.mark.sqlite]

HOSTILE = "Back, then; gone\nEND:VEVENT\nBEGIN:VEVENT\\n\N{ZERO WIDTH SPACE}" + "ü€😀" * 30


@pytest.fixture
def person(connection: DirectoryConnection) -> Console:
    return Console(make_person(superuser=True))


@pytest.fixture
def group(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group("Sales; North, and more", parent=organizational_unit)


@pytest.fixture
def bob(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Bob Miller", parent=organizational_unit)


def give(by: Console, group: UUID, *members: UUID, **headers: str) -> ChangeRequest:
    body = {"add": [str(member) for member in members]}
    answer = by.post(f"/rest/ad/groups/{group}/members", body, **{"X_Revert_After": "PT8H", **headers})
    return ChangeRequest.objects.get(id=answer.headers["Gateway-Scheduled-End"])


def address_of(person: Console) -> str:
    """A new address, as the page shows it: without the host."""
    page = PlainBrowser(person).open("/console/scheduled/").press("New address")
    parts = urlsplit(page.content.partition('id="address"')[2].partition('value="')[2].partition('"')[0])
    assert PlainBrowser(person).open(page.address).text.count("dgc_") == 0  # shown once
    return f"{parts.path}?{parts.query}"


def read(address: str, status: int = 200, method: str = "get", **headers: str) -> bytes:
    answer = getattr(Client(), method)(address, headers=headers)
    assert answer.status_code == status
    return bytes(answer.content)


def events_in(content: bytes) -> list[Any]:
    return Calendar.from_ical(content).walk("VEVENT")


def summaries(address: str) -> list[str]:
    return [str(event["SUMMARY"]) for event in events_in(read(address))]


def test_it_works(person: Console, group: UUID, bob: UUID, capfd: pytest.CaptureFixture[str]) -> None:
    end = give(person, group, bob, X_Change_Reason=quote(HOSTILE))
    address = address_of(person)
    secret = address.partition("=")[2]
    response = Client().get(address)
    assert response["Content-Type"] == "text/calendar; charset=utf-8"
    lines = response.content.split(b"\r\n")
    assert b"\n" not in b"".join(lines)
    assert b"\r" not in b"".join(lines)
    assert max(map(len, lines)) <= 75
    assert rb"SUMMARY:Sales\; North\, and more: Bob Miller leaves" in lines
    (event,) = events_in(response.content)
    assert not event.errors
    assert str(event["SUMMARY"]) == "Sales; North, and more: Bob Miller leaves"
    assert str(event["UID"]) == str(end.id)
    assert end.due_at is not None
    assert event["DTSTART"].dt == end.due_at.astimezone(UTC).replace(microsecond=0)
    assert event["STATUS"] == "CONFIRMED"
    assert str(event["URL"]).endswith(f"/console/changes/{end.id}")
    told = HOSTILE.replace("\N{ZERO WIDTH SPACE}", "⟨U+200B⟩")
    assert str(event["DESCRIPTION"]) == f"end of a temporary change\nRequested by {person.person.username}\n{told}"
    etag = response["ETag"]
    assert read(address, 304, if_none_match=etag) == b""
    head = Client().head(address)
    assert (head.status_code, head["ETag"]) == (200, etag)
    reads.flush()
    kept = OperationRecord.objects.filter(operation="change-requests.search-scheduled", key_name="calendar")
    assert {record.owner for record in kept} == {person.person.username}
    assert len(kept) == 3
    assert secret not in str(list(OperationRecord.objects.values()))
    assert secret[:20] not in "".join(capfd.readouterr())
    assert not CalendarAddress.objects.filter(digest=secret).exists()


def test_others_get_nothing(
    person: Console, group: UUID, bob: UUID, monkeypatch: pytest.MonkeyPatch, configure: Configure
) -> None:
    give(person, group, bob)
    address = address_of(person)
    assert len(summaries(address)) == 1
    for method in ("post", "put", "delete"):
        read(address, 405, method)
    for wrong in (address[:-1] + "_", address[:-9] + "A" * 9, "/calendar.ics", "/calendar.ics?secret=%ff%0d%0a"):
        assert b"BEGIN" not in read(wrong, 404)
    first, address = address, address_of(person)
    read(first, 404)
    account = person.person
    for field, value in (("is_active", False), ("password", "another"), ("session_epoch", account.session_epoch + 9)):
        before = getattr(account, field)
        type(account).objects.filter(pk=account.pk).update(**{field: value})
        read(address, 404)
        type(account).objects.filter(pk=account.pk).update(**{field: before})
    configure("SignIn", RequireSecondFactor=True)
    read(address, 404)
    configure("SignIn", RequireSecondFactor=False)
    assert len(summaries(address)) == 1
    type(account).objects.filter(pk=account.pk).update(is_superuser=False)
    assert len(summaries(address)) == 1  # what they have asked for themselves
    decider = Console(make_person(may=["approvals.decide_change", "directory.read_object"]))
    theirs = address_of(decider)
    assert len(summaries(theirs)) == 1
    decider.person.user_permissions.clear()
    assert summaries(theirs) == []
    configure("RateLimiting", Enabled=True)
    monkeypatch.setattr(calendar_addresses, "_FETCHES", RateLimit(Requests=1, WindowSeconds=60))
    read(theirs)
    read(theirs, 429)
    PlainBrowser(person).open("/console/scheduled/").press("End the address")
    read(address, 404)


def test_only_what_the_person_may_see(
    person: Console, group: UUID, bob: UUID, directory: Directory, connection: DirectoryConnection
) -> None:
    unit = directory.add_unit(random_name("unit"))
    confined = make_person(may=["approvals.decide_change", "directory.read_object"])
    confined.scopes = as_scopes([directory.guid(unit)], connection)
    confined.save()
    give(person, group, bob)
    ours = directory.add_group("Ours", parent=unit)
    give(person, ours, bob, directory.add_user("Eva", parent=unit))
    assert summaries(address_of(Console(confined))) == ["Ours: Eva leaves"]


def test_the_list_is_of_one_person(person: Console, group: UUID, bob: UUID, directory: Directory) -> None:
    give(person, group, bob)
    page = PlainBrowser(person).open(f"/console/scheduled/?about={quote(directory.dn(bob))}")
    assert "Remove Bob Miller" in page.text
    eva = directory.add_user("Eva", parent=directory.dn(bob).partition(",")[2])
    assert "Nothing is scheduled." in page.open(f"/console/scheduled/?about={eva}&owner=").text
    assert "Nothing is scheduled." in page.open("/console/scheduled/?owner=nobody").text
    page.open("/console/scheduled/?about=Bob")
    assert 'aria-invalid="true"' in page.content
