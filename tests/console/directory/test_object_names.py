"""Names typed where a form asks for objects of the directory, without scripts."""

from uuid import UUID

import pytest

from lab.directory import Directory, random_name
from tests.console.plain_browser import PlainBrowser

pytestmark = pytest.mark.django_db
OBJECTS = "/console/directory/objects"


def test_every_way_to_name_somebody(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    account = random_name("boss")
    boss = directory.add_user(
        f"Charles {account}",
        parent=organizational_unit,
        sAMAccountName=account,
        userPrincipalName=f"{account}@corp.example.test",
        mail=f"c.{account}@example.test",
        displayName=f"Professor {account}",
    )
    name = directory.dn(boss)
    for text in (account, f"{account}@corp.example.test", f"c.{account}@example.test", f"Professor {account}", name):
        page = administrator.open(f"{OBJECTS}/{ada}/edit").press("Preview", attributes__manager=text)
        assert dict(page.forms[-1].fields)["attributes.manager"] == name, text
    administrator.open(f"{OBJECTS}/{ada}/edit").press("Preview", attributes__manager=str(boss)).press("Save")
    assert directory.text(ada, "manager") == name


def test_a_name_of_several_or_of_nobody_is_refused_with_whom_it_may_mean(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    name, other = random_name("Grace"), directory.add_unit("Other", parent=organizational_unit)
    for parent in (organizational_unit, other):
        directory.add_user(f"{name} Hopper", parent=parent)
    page = administrator.open(f"{OBJECTS}/{ada}/edit").press("Preview", attributes__manager=f"{name} Hopper")
    assert (page.status, f"“{name} Hopper” can mean several: {name} Hopper" in page.text) == (400, True)
    assert "/ Other)" in page.text
    assert dict(page.forms[-1].fields)["attributes.manager"] == f"{name} Hopper"
    page = page.press("Preview", attributes__manager=f"{name} Hop")
    assert f"Nothing here is called “{name} Hop”. Did you mean {name} Hopper" in page.text


def test_groups_and_units_by_name(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    unit, (one, two) = random_name("unit"), (random_name("group") for _ in range(2))
    there = directory.add_unit(unit, parent=organizational_unit)
    groups = [directory.add_group(name, parent=organizational_unit) for name in (one, two)]
    page = administrator.open(f"{OBJECTS}/{ada}/move").press("Preview", parent=unit)
    page.press("Move")
    assert directory.dn(ada).endswith(f",{there}")
    # A person of the same name is no group.
    directory.add_user(one, parent=there, sAMAccountName=random_name("same"))
    page = administrator.open("/console/templates/new?occasion=mover").press("Save", name="M", joins=f"{one}\r\n{two}")
    assert "M is saved." in page.text
    page = administrator.open("/console/membership-rules/new").press("Save", group=two, maxDuration__count="8")
    assert "The rule is saved." in page.text
    page = administrator.open("/console/runs/new").press("Show the plan", unit=unit, action="disable")
    assert ("Ada Lovelace" in page.text, directory.members(groups[0])) == (True, set())
