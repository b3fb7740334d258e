"""Two people side by side: what differs, and the groups of one given to the other or taken away at once."""

from uuid import UUID

import pytest

from lab.directory import Directory
from tests.console.conftest import Visitor
from tests.console.plain_browser import PlainBrowser

pytestmark = pytest.mark.django_db

OBJECTS = "/console/directory/objects"


@pytest.fixture
def bob(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Bob Byron", parent=organizational_unit, title="Poet", department="Engines")


def test_it_works(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, ada: UUID, bob: UUID
) -> None:
    directory.modify(ada, department="Engines")
    both = directory.add_group("Both", parent=organizational_unit, members=[ada, bob])
    others = [directory.add_group(name, parent=organizational_unit, members=[bob]) for name in ("Poets", "Staff")]
    own = directory.add_group("Analysts", parent=organizational_unit, members=[ada])
    page = administrator.open(f"{OBJECTS}/{ada}/compare").press("Compare", **{"with": "Bob Byron"})
    for text in ("Job title Analyst Poet", "Department Engines", "Groups of Bob Byron alone 2", "Groups of both 1"):
        assert text in page.text.replace("Job titleAnalystPoet", "Job title Analyst Poet"), text
    page.press("Give Ada Lovelace the chosen groups", group=[str(others[0])])
    assert "Change the members of Poets?" in page.text
    page.press("Change the members")
    name = directory.dn(ada)
    assert [name in directory.members(group) for group in (both, *others, own)] == [True, True, False, True]
    page.open(f"{OBJECTS}/{ada}/groups").press("Leave the chosen groups", group=[str(both), str(own)])
    page.press("Leave 2 groups").press("Go on")
    assert [name in directory.members(group) for group in (both, *others, own)] == [False, True, False, False]


def test_whom_nobody_or_several_are_called(
    administrator: PlainBrowser, directory: Directory, organizational_unit: str, ada: UUID, bob: UUID
) -> None:
    unit = directory.add_unit("Elsewhere", parent=organizational_unit)
    other = directory.add_user("Bob Byron", parent=unit)
    page = administrator.open(f"{OBJECTS}/{ada}/compare")
    assert page.press("Compare", **{"with": "Bob Byron"}).status == 400
    assert "Elsewhere" in page.text, "both are shown with their places"
    assert page.press("Compare", **{"with": "Nobody of that name"}).status == 400
    page.press("Compare", **{"with": str(other)})
    assert "Compare Ada Lovelace with Bob Byron" in page.text
    assert page.open(f"{OBJECTS}/{ada}/compare?with=").status == 200


def test_only_who_may_change_memberships(visitor: Visitor, directory: Directory, ada: UUID, bob: UUID) -> None:
    page = visitor().open(f"{OBJECTS}/{ada}/compare?with={bob}")
    assert page.status == 200
    assert "Give" not in page.text
    page = visitor("directory.manage_membership").open(f"{OBJECTS}/{ada}/groups")
    assert page.press("Leave the chosen groups").status == 400  # none is chosen
