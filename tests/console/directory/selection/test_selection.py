"""Acting on several objects chosen in a list: previewed, done in steps, told of, taken back."""

from typing import Any
from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from console.directory.selection import actions, tasks
from core.configuration_sections import Budget
from lab.directory import Directory, random_name
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff(directory: Directory, organizational_unit: str) -> list[UUID]:
    return [directory.add_user(f"Clerk {number}", parent=organizational_unit) for number in range(3)]


def choose(page: PlainBrowser, unit: UUID, chosen: list[UUID], action: str) -> PlainBrowser:
    page.open(f"/console/directory/?base={unit}&now=yes")
    return page.press("With the chosen…", chosen=[str(guid) for guid in chosen], action=action)


def finish(page: PlainBrowser) -> PlainBrowser:
    """Without scripts the page is gone on with by a button."""
    while "Go on" in page.buttons:
        page.press("Go on")
    return page


def test_it_works(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, staff: list[UUID]
) -> None:
    unit = directory.guid(organizational_unit)
    group = directory.add_group("Clerks", parent=organizational_unit)
    directory.modify(staff[2], userAccountControl="514")
    page = choose(administrator, unit, [*staff, group], "disable")
    assert "Disable 3 objects?" in page.text
    assert "2 changes 1 unchanged 1 left out destructive" in page.text.lower()
    assert "Clerks: it has no account that this could change" in page.text
    assert all(map(directory.is_enabled, staff[:2]))  # nothing is done before it is confirmed
    page.press("Disable all 2", reason="Ticket 12")
    finish(page)
    assert "2 disabled, 1 unchanged, 1 left out." in page.text
    assert not any(map(directory.is_enabled, staff))
    records = OperationRecord.objects.filter(operation="users.disable", outcome="succeeded")
    assert {record.target_id for record in records} == set(staff[:2])
    assert {record.reason for record in records} == {"Ticket 12"}
    page.press("Undo…")
    assert "Undo 2 changes?" in page.text
    finish(page.press("Undo all 2"))
    assert "2 undone." in page.text
    assert [directory.is_enabled(user) for user in staff] == [True, True, False]


def test_what_waits_leads_to_its_request(
    administrator: PlainBrowser,
    directory: Directory,
    organizational_unit: str,
    staff: list[UUID],
    configure: Configure,
) -> None:
    """There, and in the results of what was done, stands who approved."""
    configure("Budgets", Directory=Budget(DestructiveChangesPerHour=1))
    page = choose(administrator, directory.guid(organizational_unit), staff[:2], "disable")
    finish(page.press("Disable all 2"))
    held = ChangeRequest.objects.get()
    assert page.content.count("Waits for approval") == 1
    assert f'href="/console/changes/{held.id}"' in page.content
    assert page.open(f"/console/changes/{held.id}").status == 200


def test_moving_joining_and_setting(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, staff: list[UUID]
) -> None:
    unit = directory.guid(organizational_unit)
    there = directory.add_unit("Leavers", parent=organizational_unit)
    groups = [directory.add_group(name, parent=organizational_unit) for name in ("One", "Two")]
    page = choose(administrator, unit, staff, "join").press("Preview", group=[directory.dn(groups[0]), str(groups[1])])
    assert "Add 3 objects to 2 groups?" in page.text
    assert finish(page.press("Add to 2 groups")).text.count("Done") >= 3
    assert all(len(directory.members(group)) == 3 for group in groups)
    page = choose(page, unit, staff, "set").press("Preview", attribute="department", values="Engines")
    finish(page.press("Change all 3"))
    assert {directory.text(user, "department") for user in staff} == {"Engines"}
    page = choose(page, unit, staff, "set").press("Preview", attribute="noSuchThing", values="1")
    assert "3 refused" in page.text
    assert "Nothing would change." in page.text
    page = choose(page, unit, staff[:2], "move").press("Preview", parent=there)
    finish(page.press("Move all 2"))
    assert [there in directory.dn(user) for user in staff] == [True, True, False]
    page = choose(page, unit, [staff[2]], "join").press("Preview", group="CN=Nobody")
    assert page.status == 400
    assert "CN=Nobody is not a group that you can see" in page.text


def test_many_are_done_in_steps_and_exported(
    administrator: PlainBrowser,
    directory: Directory,
    organizational_unit: str,
    staff: list[UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "CHUNK", 2)
    page = choose(administrator, directory.guid(organizational_unit), staff, "disable")
    page.press("Disable all 3")
    assert "0 of 3" in page.content
    assert "2 of 3" in page.press("Go on").content
    assert sorted(map(directory.is_enabled, staff)) == [False, False, True]
    assert "3 disabled." in page.press("Go on").text
    indexes = OperationRecord.objects.filter(operation="users.disable").values_list("batch_index", flat=True)
    assert sorted(indexes) == [0, 1, 2]
    monkeypatch.setattr(actions, "MAX_OBJECTS", 2)
    assert choose(page, directory.guid(organizational_unit), staff, "disable").status == 400
    token = next(value for form in page.forms for name, value in form.fields if name == "csrfmiddlewaretoken")
    sent = {"action": "export", "chosen": str(staff[0]), "csrfmiddlewaretoken": token}
    response: Any = page._client.post("/console/directory/selection", sent)
    assert b"Clerk 0" in b"".join(response.streaming_content)


def test_what_a_killed_request_had_done_is_not_done_again(
    administrator: PlainBrowser,
    directory: Directory,
    organizational_unit: str,
    staff: list[UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = choose(administrator, directory.guid(organizational_unit), staff, "disable")
    page.press("Disable all 3")
    with monkeypatch.context() as killed:
        killed.setattr(tasks, "save_task", lambda _: None)  # what came of the changes is never noted
        page.press("Go on")
    assert not any(map(directory.is_enabled, staff))
    directory.modify(staff[0], userAccountControl="512")  # somebody else had a reason
    assert "3 disabled." in finish(page.press("Go on")).text
    assert OperationRecord.objects.filter(operation="users.disable").count() == 3
    assert [directory.is_enabled(user) for user in staff] == [True, False, False]


def test_only_what_the_person_may_do(
    visitor: Visitor, directory: Directory, organizational_unit: str, staff: list[UUID]
) -> None:
    unit = directory.guid(organizational_unit)
    page = visitor("directory.unlock_account").open(f"/console/directory/?base={unit}&now=yes")
    assert '<option value="unlock">' in page.content
    assert '<option value="disable">' not in page.content
    assert choose(page, unit, staff, "disable").status == 403
    page = choose(visitor("directory.disable_account"), unit, staff, "disable")
    address = page.address
    assert visitor("directory.disable_account").open(address).status == 404  # somebody else's
    page.press("Disable all 3")
    assert "Undo" not in finish(page).text
    assert page.open(f"/console/directory/selection/{staff[0]}").status == 404


def test_members_of_a_group(administrator: PlainBrowser, directory: Directory, organizational_unit: str) -> None:
    users = [directory.add_user(parent=organizational_unit) for _ in range(2)]
    group = directory.add_group(random_name("group"), parent=organizational_unit, members=users)
    page = administrator.open(f"/console/directory/objects/{group}/members?now=yes")
    page.press("With the chosen…", remove=[str(users[0])], action="disable").press("Disable")
    finish(page)
    assert [directory.is_enabled(user) for user in users] == [False, True]


def test_a_mover_gets_what_a_colleague_has_and_a_leaver_loses_everything(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, staff: list[UUID]
) -> None:
    there = directory.add_unit("Engines", parent=organizational_unit)
    boss = directory.add_user("Boss", parent=there)
    colleague = directory.add_user("Colleague", parent=there, title="Engineer", manager=directory.dn(boss))
    mover, leaver, _ = staff
    old = directory.add_group("Old", parent=organizational_unit, members=[mover, leaver])
    both = directory.add_group("Both", parent=organizational_unit, members=[mover, colleague])
    new = directory.add_group("New", parent=organizational_unit, members=[colleague])
    page = administrator.open(f"/console/directory/selection/recipes/mover?chosen={mover}")
    assert page.press("Preview").status == 400  # no colleague
    page.press("Preview", colleague=directory.dn(colleague))
    assert "Mover: Clerk 0?" in page.text
    assert "4 changes" in page.text  # title and manager, two groups, the place
    assert "leaves: Clerk 0" in page.text
    assert "joins: Clerk 0" in page.text
    finish(page.press("Make 4 changes", reason="To Engines"))
    assert "4 changes made." in page.text
    assert there in directory.dn(mover)
    assert directory.text(mover, "manager") == directory.dn(boss)
    assert [directory.dn(mover) in directory.members(group) for group in (old, both, new)] == [False, True, True]

    page.open(f"/console/directory/selection/recipes/leaver?chosen={leaver}")
    assert page.press("Preview", block=["disable"], place=there).status == 400
    assert "Is not used: tick the move above, or leave this empty" in page.text
    page.press("Preview", block=["disable", "leave", "describe", "move"], place=there)
    finish(page.press("Make 4 changes"))
    assert not directory.is_enabled(leaver)
    assert (directory.text(leaver, "description") or "").startswith("Left on ")
    assert directory.dn(leaver) not in directory.members(old)
    assert there in directory.dn(leaver)
    finish(page.press("Undo…").press("Undo all 4"))
    assert "4 undone." in page.text
    assert directory.is_enabled(leaver)
    assert directory.dn(leaver) in directory.members(old)
    assert there not in directory.dn(leaver)
