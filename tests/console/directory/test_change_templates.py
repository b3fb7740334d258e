"""Templates for who joins, moves or leaves: kept by who may, used by others, one preview and one way back."""

from html import unescape
from typing import Any
from uuid import UUID

import pytest

from audit.models import OperationRecord
from directory.models import ChangeTemplate, DirectoryConnection
from lab.directory import Directory, random_name
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Console, as_scopes, make_person

pytestmark = pytest.mark.django_db

PATH = "/console/templates/"
MAY_USE = ("directory.create_user", "directory.update_user", "directory.manage_membership", "directory.enable_account")


@pytest.fixture
def sales(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_group("Sales", parent=organizational_unit)


def keep(administrator: PlainBrowser, **typed: Any) -> ChangeTemplate:
    page = administrator.open(f"{PATH}new").press("Save", **{"name": "Joiner Sales", "occasion": "joiner", **typed})
    assert page.status == 200, page.text
    return ChangeTemplate.objects.get()


def keep_another(administrator: PlainBrowser, **typed: Any) -> UUID:
    administrator.open(f"{PATH}new").press("Save", occasion="joiner", **typed)
    return ChangeTemplate.objects.get(name=typed["name"]).pk


def finish(page: PlainBrowser) -> PlainBrowser:
    while "Go on" in page.buttons:
        page.press("Go on")
    return page


def test_somebody_new(administrator: PlainBrowser, directory: Directory, organizational_unit: str, sales: UUID) -> None:
    last = random_name("Byron")
    account, dn = f"ada.{last.lower()}", f"CN=Ada {last},{organizational_unit}"
    kept = keep(
        administrator,
        parent=organizational_unit,
        joins=[directory.dn(sales), "", ""],
        attribute__name=["department", "physicalDeliveryOfficeName", "mobile", ""],
        attribute__values=["Sales", "Room {office}", "{mobile?}", ""],
        account="enable",
    )
    page = administrator.open(f"{PATH}{kept.pk}/use")
    assert page.press("Preview", givenName="Ada", sn=last).status == 400
    assert "Fill this in." in page.text
    page.press("Preview", fill__office="1.07")
    assert f"Joiner Sales: Ada {last}?" in page.text
    assert f"New account {account}" in page.text
    assert "2 changes" in page.text
    assert not directory.exists(dn)
    finish(page.press("Make 2 changes", reason="Ticket 7"))
    assert "2 changes made." in page.text
    made = directory.guid(dn)
    assert directory.text(made, "physicalDeliveryOfficeName") == "Room 1.07"
    assert directory.text(made, "mobile") is None
    assert directory.dn(made) in directory.members(sales)
    task = page.address
    shown = page.press("Show the password once").content.partition('spellcheck="false" value="')[2].partition('"')[0]
    password = unescape(shown)
    assert not directory.can_sign_in(made, password)  # it has to be changed first
    directory.modify(made, pwdLastSet="-1")
    assert directory.can_sign_in(made, password)
    page.open(task)
    assert "Show the password once" not in page.buttons
    records = OperationRecord.objects.filter(reason="Ticket 7").order_by("id")
    assert [record.operation for record in records] == ["users.create", "groups.change-members"]
    assert len({record.request_id for record in records}) == 1
    page.press("Undo…")
    assert "Undo 2 changes?" in page.text
    finish(page.press("Undo all 2"))
    assert not directory.exists(made)
    assert directory.members(sales) == set()


def test_whoever_could_not_be_made_joins_nothing(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, sales: UUID
) -> None:
    kept = keep(administrator, parent=organizational_unit, joins=[directory.dn(sales), "", ""])
    page = administrator.open(f"{PATH}{kept.pk}/use").press("Preview", sn="Babbage")
    directory.add_user("Babbage", parent=organizational_unit)  # somebody was faster
    finish(page.press("Make 2 changes"))
    assert "2 failed" in page.text
    assert "Babbage was not made." in page.text
    assert directory.members(sales) == set()
    page.open(f"{PATH}{kept.pk}/use").press("Preview", sn="Babbage")  # and later it is said at once
    assert page.status == 409


def test_people_who_are_there(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, ada: UUID, sales: UUID
) -> None:
    old = directory.add_group("Old team", parent=organizational_unit, members=[ada])
    there = directory.add_unit("Sales", parent=organizational_unit)
    kept = keep(
        administrator,
        name="Mover",
        occasion="mover",
        parent=there,
        joins=[str(sales), "", ""],
        leavesOthers="on",
        attribute__name=["description", "title", ""],
        attribute__values=["{First name} moved on {today}", "", ""],
    )
    page = administrator.open(f"/console/directory/selection/recipes?chosen={ada}")
    assert "Mover" in page.text
    page.open(f"{PATH}{kept.pk}/use?chosen={ada}").press("Preview")
    assert "joins: Ada Lovelace" in " ".join(page.text.split())
    assert "leaves: Ada Lovelace" in " ".join(page.text.split())
    finish(page.press("Make 4 changes"))
    assert (directory.members(old), directory.members(sales)) == (set(), {directory.dn(ada)})
    assert (directory.text(ada, "description") or "").startswith("Ada moved on 20")
    assert directory.text(ada, "title") is None
    assert there in directory.dn(ada)
    page.press("Undo…")
    finish(page.press("Undo all 4"))
    assert (directory.members(old), directory.members(sales)) == ({directory.dn(ada)}, set())
    assert directory.text(ada, "title") == "Analyst"


def test_it_is_kept_with_its_record(administrator: PlainBrowser, directory: Directory, sales: UUID) -> None:
    kept = keep(administrator, joins=[directory.dn(sales), "", ""], attribute__name="title", attribute__values="Clerk")
    page = administrator.open(f"{PATH}{kept.pk}").press("Save", joins=["CN=Nobody", "", ""])
    assert page.status == 404
    assert "There is no group CN=Nobody" in page.text
    page.open(f"{PATH}{kept.pk}").press("Save", attribute__values=["Writer", "", "", ""])
    records = OperationRecord.objects.filter(target_id=kept.pk).order_by("id")
    assert [record.operation for record in records if record.outcome == "succeeded"] == [
        "change-templates.create",
        "change-templates.update",
    ]
    changed = records.last()
    assert changed is not None
    [change] = changed.changes
    assert (change["before"], change["after"]) == (["title: Clerk"], ["title: Writer"])
    page.open(f"{PATH}{kept.pk}").press("Delete the template")
    assert not ChangeTemplate.objects.exists()


def test_who_may_keep_and_who_may_use(
    administrator: PlainBrowser, visitor: Visitor, directory: Directory, organizational_unit: str, sales: UUID
) -> None:
    kept = keep(administrator, parent=organizational_unit, joins=[directory.dn(sales), "", ""])
    anywhere = keep_another(administrator, name="Joiner elsewhere")
    page = administrator.open(f"{PATH}{anywhere}/use").press("Preview", sn="Babbage", parent="nonsense")
    assert (page.status, "Nothing here is called “nonsense”." in page.text) == (400, True)
    reader = visitor()
    assert reader.open(PATH).status == 403
    user = visitor("directory.create_user", "directory.update_user")
    assert "Joiner Sales" in user.open(PATH).text
    assert user.open(f"{PATH}{kept.pk}").status == 403
    assert user.open(f"{PATH}new").status == 403
    page = user.open(f"{PATH}{kept.pk}/use").press("Preview", sn="Babbage")
    assert "1 refused" in page.text  # joining needs another permission
    finish(page.press("Make the change"))
    assert directory.exists(f"CN=Babbage,{organizational_unit}")
    assert directory.members(sales) == set()


def test_confined_people_use_it_inside_alone(
    administrator: PlainBrowser,
    connection: DirectoryConnection,
    directory: Directory,
    organizational_unit: str,
    sales: UUID,
) -> None:
    """They see no name of what lies outside, and nothing is made there by the template either."""
    kept = keep(administrator, parent=organizational_unit, joins=[directory.dn(sales), "", ""])
    inside = directory.guid(directory.add_unit("Inside", parent=organizational_unit))
    person = make_person(may=["directory.read_object", "directory.manage_changetemplate", *MAY_USE])
    person.scopes = as_scopes([inside], connection)
    person.save()
    console = Console(person)
    told = console.get(f"/rest/ad/change-templates/{kept.pk}").body
    assert (told["parent"]["distinguishedName"], told["joins"][0]["distinguishedName"]) == (None, None)
    page = PlainBrowser(console).open(f"{PATH}{kept.pk}/use")
    page.press("Preview", sn="Babbage", parent=organizational_unit)
    assert page.status == 400
    assert "gone, or not yours to see" in page.text
    assert not directory.exists(f"CN=Babbage,{organizational_unit}")
    assert PlainBrowser(console).open(f"{PATH}new").status == 403  # whoever is confined administers nothing
