"""A change whose domain controller is busy: its page follows it, and says how it ended."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from audit.models import OperationRecord
from directory.outcomes import evidence
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.samba.database import busy_with_a_write
from lab.waiting import wait_until
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, make_person
from tests.support.configuration import Configure
from tests.support.mishaps import settle, unknown_outcome

pytestmark = pytest.mark.django_db(transaction=True)  # the answers are recorded by another thread

OBJECTS = "/console/directory/objects"
CHANGES = "/console/directory/changes"
NOT_YET = "The domain controller has not answered yet."


@pytest.fixture(autouse=True)
def impatient(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    configure("Directory", OperationSeconds=2, SubtreeSeconds=2)
    monkeypatch.setattr(evidence, "RECOVERY_SECONDS", 0.5)
    yield
    wait_until(lambda: not OperationRecord.objects.filter(outcome__in=("pending", "unknown")).exists())


def test_it_works(administrator: PlainBrowser, domain: Domain, directory: Directory, organizational_unit: str) -> None:
    unit = directory.guid(directory.add_unit(random_name("large"), parent=organizational_unit))
    name = random_name("renamed")
    page = administrator.open(f"{OBJECTS}/{unit}/rename").press("Preview", name=name)
    with busy_with_a_write(domain):
        page.press("Rename")
        record = OperationRecord.objects.get(operation="organization-units.rename")
        assert (page.address, page.status) == (f"{CHANGES}/{record.id}", 200)
        for text in (NOT_YET, "It may still make this change, so do not ask for it again.", "See its log record"):
            assert text in page.text
        assert page.ask_again() == 204
        own = page.address
        page.open(f"/console/log/{record.id}")
        assert NOT_YET in page.text
        assert 'hx-trigger="every 3s"' in page.content
        assert page.ask_again() == 204
    wait_until(lambda: page.ask_again() == 200)
    assert "What was done" in page.open(page.address).text
    page.open(own)
    assert "The change was made." in page.text
    assert "hx-trigger" not in page.content.partition('id="became"')[2]
    assert f'href="{OBJECTS}/{unit}"' in page.content
    assert f'href="/console/log/{record.id}/revert"' in page.content
    assert directory.dn(unit).startswith(f"OU={name},")


def test_what_is_refused_in_the_end_says_why(administrator: PlainBrowser, domain: Domain, ada: UUID) -> None:
    page = administrator.open(f"{OBJECTS}/{ada}/reset-password")
    with busy_with_a_write(domain):
        page.press("Reset the password", how="given", newPassword="x")
        assert NOT_YET in page.text
    wait_until(lambda: page.ask_again() == 200)
    page.open(page.address)
    assert "The domain controller refused the change. Nothing was changed." in page.text
    assert "The directory's password policy refuses this password" in page.text
    record = OperationRecord.objects.get(operation="users.reset-password")
    assert "The directory's password policy refuses this password" in page.open(f"/console/log/{record.id}").text


def test_what_was_never_made_can_be_asked_for_again(administrator: PlainBrowser, ada: UUID) -> None:
    page = administrator.open(f"{OBJECTS}/{ada}/disable")
    with unknown_outcome(after_write=False):
        page.press("Disable")
    assert NOT_YET in page.text
    settle(nothing_under_way=True)
    assert "The change was not made. You can ask for it again." in page.open(page.address).text


def test_a_password_that_nobody_has_seen_is_told_of(administrator: PlainBrowser, ada: UUID) -> None:
    page = administrator.open(f"{OBJECTS}/{ada}/reset-password")
    with unknown_outcome(after_write=True):
        page.press("Reset the password")
    settle(nothing_under_way=True)
    page.open(page.address)
    assert "The change was made." in page.text
    assert "nobody has seen it: reset it once more." in page.text


def test_whoever_made_it_follows_it_without_the_log_and_nobody_else(visitor: Visitor, ada: UUID) -> None:
    page = visitor("directory.disable_account").open(f"{OBJECTS}/{ada}/disable")
    with unknown_outcome(after_write=True):
        page.press("Disable")
    assert NOT_YET in page.text
    assert "log record" not in page.text
    stranger = PlainBrowser(Console(make_person(superuser=True)))
    assert stranger.open(page.address).status == 404
    settle(nothing_under_way=True)
    page.open(page.address)
    assert "The change was made." in page.text
    assert "Undo" not in page.text
