"""Changes of chosen objects whose domain controller is busy: followed until it is known what became of each."""

from uuid import UUID

import pytest

from audit.models import OperationRecord
from directory.models import ChangeTemplate
from directory.outcomes import evidence
from lab.directory import Directory, random_name
from lab.domain import Domain
from lab.samba.database import busy_with_a_write
from lab.waiting import wait_until
from tests.console.directory.selection.test_selection import choose, finish
from tests.console.plain_browser import PlainBrowser
from tests.support.configuration import Configure
from tests.support.mishaps import settle, unknown_outcome

pytestmark = pytest.mark.django_db(transaction=True)  # the answers are recorded by another thread


@pytest.fixture(autouse=True)
def impatient(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure("Directory", OperationSeconds=2, SubtreeSeconds=2)
    monkeypatch.setattr(evidence, "RECOVERY_SECONDS", 0.5)


def test_it_works(administrator: PlainBrowser, domain: Domain, directory: Directory, organizational_unit: str) -> None:
    staff = [directory.add_user(f"Clerk {number}", parent=organizational_unit) for number in range(2)]
    page = choose(administrator, directory.guid(organizational_unit), staff, "disable").press("Disable all 2")
    with busy_with_a_write(domain):
        page.press("Go on")
        assert "On its way" in page.text
        assert "0 disabled, 2 not answered yet." in page.text
        assert "so do not ask for them again. This page follows them." in page.text
        assert 'hx-trigger="load delay:3s"' in page.content
        assert "2 not answered yet" in page.press("Go on").text, "nothing is done twice"
    wait_until(lambda: "2 disabled." in page.press("Go on").text)
    assert "Done" in page.text
    assert "Undo…" in page.buttons
    assert not any(map(directory.is_enabled, staff))
    assert OperationRecord.objects.filter(operation="users.disable").count() == 2


def test_what_was_not_made_after_all_has_failed(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    page = choose(administrator, directory.guid(organizational_unit), [ada], "disable").press("Disable")
    with unknown_outcome(after_write=False):
        page.press("Go on")
    settle(nothing_under_way=True)
    finish(page)
    assert "0 disabled, 1 failed." in page.text
    assert "The change was not made." in page.text
    assert directory.is_enabled(ada)


def test_what_needs_a_new_account_waits_for_it(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str
) -> None:
    sales = directory.add_group("Sales", parent=organizational_unit)
    last = random_name("Byron")
    page = administrator.open("/console/templates/new")
    page.press(
        "Save", name="Joiner", occasion="joiner", parent=organizational_unit, joins=[directory.dn(sales), "", ""]
    )
    page.open(f"/console/templates/{ChangeTemplate.objects.get().pk}/use")
    page.press("Preview", givenName="Ada", sn=last).press("Make 2 changes")
    with unknown_outcome(after_write=True):
        page.press("Go on")
    assert "1 not answered yet" in page.text
    assert not directory.members(sales)
    settle(nothing_under_way=True)
    finish(page)
    assert "2 changes made." in page.text
    assert directory.members(sales) == {f"CN=Ada {last},{organizational_unit}"}
