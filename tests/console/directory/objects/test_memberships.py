"""Members of a group and groups of an object on their pages, without scripts."""

import re
from html import unescape
from urllib.parse import urlencode
from uuid import UUID

import pytest

from audit.models import OperationRecord
from lab.directory import Directory
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser

pytestmark = pytest.mark.django_db

OBJECTS = "/console/directory/objects"


@pytest.fixture
def analysts(directory: Directory, organizational_unit: str, ada: UUID) -> UUID:
    return directory.add_group("Analysts", parent=organizational_unit, members=[ada])


def list_members(browser: PlainBrowser, group: UUID, **query: str) -> PlainBrowser:
    """The page of a group's members as it is without scripts: there they are asked for by a link."""
    page = browser.open(f"{OBJECTS}/{group}/members?{urlencode(query)}")
    link = re.search(r'<noscript><a class="button" href="([^"]*)">', page.content)
    assert link is not None
    return browser.open(unescape(link[1]))


def test_it_works(
    administrator: PlainBrowser, directory: Directory, analysts: UUID, ada: UUID, organizational_unit: str
) -> None:
    charles = directory.add_user("Charles Babbage", parent=organizational_unit, mail="charles@corp.example.test")
    page = list_members(administrator, analysts)
    assert "1 member" in page.text
    assert "Ada Lovelace" in page.text
    page = page.open(f"{OBJECTS}/{analysts}/members/add").press("Preview", add="Charles Bab\r\nnobody")
    assert (page.status, "Did you mean Charles Babbage" in page.text) == (400, True)
    page = page.press("Preview", add=f"charles@corp.example.test\r\n{directory.dn(charles)}")
    for text in ("Change the members of Analysts?", "it adds members to the group", "CN=Charles Babbage"):
        assert text.lower() in page.text.lower()
    assert directory.members(analysts) == {directory.dn(ada)}
    page = page.press("Change the members", reason="New")
    assert page.address == f"{OBJECTS}/{analysts}/members"
    assert "The members of Analysts are changed. See its log record." in page.text
    assert directory.members(analysts) == {directory.dn(ada), directory.dn(charles)}
    page = list_members(page, analysts).press("Remove the chosen", remove=[str(ada), str(charles)])
    assert "Destructive" in page.text
    page.press("Change the members")
    assert "The group has no members." in list_members(page, analysts).text
    assert directory.members(analysts) == set()
    assert [record.reason for record in OperationRecord.objects.order_by("id")] == ["New", None]


def test_members_are_found_by_name_and_through_nested_groups(
    administrator: PlainBrowser, directory: Directory, analysts: UUID, organizational_unit: str
) -> None:
    above = directory.add_group("Everybody", parent=organizational_unit, members=[analysts])
    page = list_members(administrator, above)
    assert "Analysts" in page.text
    assert "Ada Lovelace" not in page.text
    page = list_members(page, above, nested="true")
    assert "Ada Lovelace" in page.text
    assert "Remove the chosen" not in page.buttons  # she is no member herself
    assert "No member has this name." in list_members(page, analysts, q="Nobody").text


def test_a_primary_group_is_marked_and_cannot_be_left(
    administrator: PlainBrowser, directory: Directory, ada: UUID, analysts: UUID
) -> None:
    page = administrator.open(f"{OBJECTS}/{ada}/groups")
    assert "Domain Users Primary group" in page.text
    assert "Analysts" in page.text
    assert [label for label in page.buttons if label.startswith("Remove")] == ["Remove from Analysts"]
    users = directory.guid(f"CN=Domain Users,CN=Users,{directory.base_dn}")
    page = list_members(page, users, q="Ada Lovelace")
    assert "it is their primary group" in page.text
    assert f'name="remove" value="{ada}"' not in page.content


def test_joining_and_leaving_a_group(
    administrator: PlainBrowser, directory: Directory, ada: UUID, analysts: UUID, organizational_unit: str
) -> None:
    engines = directory.add_group("Engines", parent=organizational_unit)
    page = administrator.open(f"{OBJECTS}/{ada}/groups/join").press("Preview", group=directory.dn(engines))
    page = page.press("Change the members")
    assert page.address == f"{OBJECTS}/{ada}/groups"
    assert directory.members(engines) == {directory.dn(ada)}
    page.press("Remove from Engines").press("Change the members")
    assert directory.members(engines) == set()
    assert directory.members(analysts) == {directory.dn(ada)}


def test_the_way_back_stays_in_the_console(administrator: PlainBrowser, analysts: UUID, ada: UUID) -> None:
    page = list_members(administrator, analysts)
    page = page.press("Remove the chosen", remove=str(ada), back="https://evil.example/")
    assert page.press("Change the members").address == f"{OBJECTS}/{analysts}/members"


def test_refusals(
    visitor: Visitor, administrator: PlainBrowser, directory: Directory, analysts: UUID, organizational_unit: str
) -> None:
    reader = visitor()
    page = list_members(reader, analysts)
    assert "Ada Lovelace" in page.text
    assert not {"Add members", "Remove the chosen"} & {*page.buttons}
    assert "Add members" not in page.text
    assert reader.open(f"{OBJECTS}/{analysts}/members/add").status == 403
    above = directory.add_group("Everybody", parent=organizational_unit, members=[analysts])
    page = list_members(administrator, analysts)
    page = page.press("Remove the chosen", add=str(above))
    assert page.status == 409
    assert "AD.Group.Cycle" in page.text
    assert "Change the members" not in page.buttons
