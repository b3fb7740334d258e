"""A revert puts back the objects that a change was about, not whatever has their names by now."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from audit.log_queries import CLOCKS_DIFFER_BY
from core.call import SupervisionLevel
from directory.changes import references
from directory.models import DirectoryConnection
from gateway.pipeline import recording
from lab.directory import Directory, random_name
from lab.domain import Domain
from tests.directory.changes.reverting import NOT_REVERTIBLE, latest, refused, revert, succeeded
from tests.directory.supervised import approve
from tests.support.cast import Integration, make_connection, make_integration


@pytest.fixture
def alice(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Alice", parent=organizational_unit)


@pytest.fixture
def mallory(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Mallory", parent=organizational_unit)


@pytest.fixture
def swap(directory: Directory, alice: UUID, mallory: UUID) -> Callable[[], None]:
    def swap() -> None:
        directory.rename(alice, "Alice Somebody")
        directory.rename(mallory, "Alice")

    return swap


@pytest.fixture
def group(directory: Directory, organizational_unit: str, alice: UUID) -> UUID:
    return directory.add_group(parent=organizational_unit, members=[alice])


@pytest.fixture(params=["members", "update"])
def removed(
    request: pytest.FixtureRequest, integration: Integration, directory: Directory, group: UUID, alice: UUID
) -> dict[str, Any]:
    """The record of Alice's removal from the group."""
    if request.param == "members":
        succeeded(integration.post(f"/api/ad/groups/{group}/members", {"remove": [str(alice)]}))
    else:
        updates = {"remove": {"member": [directory.dn(alice)]}}
        succeeded(integration.patch(f"/api/ad/groups/{group}", updates))
    return latest(integration, target=group)


@pytest.fixture
def old_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records as they were before they kept identities beside names, on a machine with one clock."""
    monkeypatch.setattr(recording, "evidence_with_references", lambda _, change: change.evidence)
    monkeypatch.setattr(references, "CLOCKS_DIFFER_BY", timedelta(0))


def let_a_second_pass() -> None:
    """The directory keeps whole seconds: what happens within the one of a record may have been before it."""
    time.sleep(1.05)


class TestMembers:
    def test_who_was_removed(
        self, integration: Integration, directory: Directory, group: UUID, alice: UUID, removed: Any, swap: Any
    ) -> None:
        swap()
        succeeded(revert(integration, removed))
        assert directory.members(group) == {directory.dn(alice)}

    def test_when_somebody_approves_it_later(
        self, connection: DirectoryConnection, directory: Directory, group: UUID, alice: UUID, removed: Any, swap: Any
    ) -> None:
        careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
        held = revert(careful, removed)
        swap()
        assert approve(held).status == "applied"
        assert directory.members(group) == {directory.dn(alice)}

    def test_whoever_was_added_goes(
        self, integration: Integration, directory: Directory, group: UUID, alice: UUID, mallory: UUID, swap: Any
    ) -> None:
        directory.add_values(group, member=directory.dn(mallory))
        directory.remove_values(group, member=directory.dn(alice))
        succeeded(integration.post(f"/api/ad/groups/{group}/members", {"add": [str(alice)]}))
        made = latest(integration, target=group)
        swap()
        succeeded(revert(integration, made))
        assert directory.members(group) == {directory.dn(mallory)}

    def test_one_who_is_gone_is_nobody(
        self, integration: Integration, directory: Directory, group: UUID, alice: UUID, mallory: UUID, removed: Any
    ) -> None:
        directory.delete(alice)
        directory.rename(mallory, "Alice")
        assert refused(revert(integration, removed)) == NOT_REVERTIBLE
        assert directory.members(group) == set()


@pytest.mark.usefixtures("old_records")
class TestOlderRecords:
    def test_a_name_that_others_took(
        self, integration: Integration, directory: Directory, group: UUID, removed: Any, swap: Any
    ) -> None:
        let_a_second_pass()
        swap()
        assert refused(revert(integration, removed)) == NOT_REVERTIBLE
        assert directory.members(group) == set()

    def test_a_name_that_others_took_with_their_unit(
        self, integration: Integration, directory: Directory, organizational_unit: str
    ) -> None:
        here, there = (directory.add_unit(name, parent=organizational_unit) for name in ("Here", "There"))
        alice, _ = (directory.add_user("Alice", parent=unit) for unit in (here, there))
        group = directory.add_group(parent=organizational_unit, members=[alice])
        succeeded(integration.post(f"/api/ad/groups/{group}/members", {"remove": [str(alice)]}))
        made = latest(integration, target=group)
        let_a_second_pass()
        directory.rename(here, "Away")
        directory.rename(there, "Here")
        assert refused(revert(integration, made)) == NOT_REVERTIBLE
        assert directory.members(group) == set()

    def test_who_has_been_called_so_all_the_time(
        self, integration: Integration, directory: Directory, group: UUID, alice: UUID, removed: Any
    ) -> None:
        succeeded(revert(integration, removed))
        assert directory.members(group) == {directory.dn(alice)}

    def test_who_may_have_been_renamed_by_a_clock_that_is_behind(
        self, integration: Integration, directory: Directory, group: UUID, removed: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(references, "CLOCKS_DIFFER_BY", CLOCKS_DIFFER_BY)
        assert refused(revert(integration, removed)) == NOT_REVERTIBLE
        assert directory.members(group) == set()

    def test_the_container_of_a_move(
        self, integration: Integration, directory: Directory, organizational_unit: str, alice: UUID
    ) -> None:
        here, there = (directory.add_unit(name, parent=organizational_unit) for name in ("Here", "There"))
        directory.move(alice, parent=here)
        succeeded(integration.post(f"/api/ad/users/{alice}/move", {"parent": there}))
        made = latest(integration, target=alice)
        let_a_second_pass()
        directory.rename(here, "Away")
        directory.add_unit("Here", parent=organizational_unit)
        assert refused(revert(integration, made)) == NOT_REVERTIBLE


class TestOthers:
    @pytest.mark.parametrize("attribute", ["manager", "seeAlso"])
    def test_what_an_attribute_referred_to(
        self,
        integration: Integration,
        directory: Directory,
        organizational_unit: str,
        alice: UUID,
        mallory: UUID,
        swap: Any,
        attribute: str,
    ) -> None:
        boss = directory.add_user("Boss", parent=organizational_unit)
        named: dict[str, Any] = {attribute: directory.dn(alice)}
        user = directory.add_user(parent=organizational_unit, **named)
        succeeded(integration.patch(f"/api/ad/users/{user}", {"replace": {attribute: directory.dn(boss)}}))
        made = latest(integration, target=user)
        swap()
        directory.rename(boss, "Boss of all")
        succeeded(revert(integration, made))
        assert directory.text(user, attribute) == directory.dn(alice)

        succeeded(integration.patch(f"/api/ad/users/{user}", {"clear": [attribute]}))
        made = latest(integration, target=user)
        name = directory.dn(alice).partition(",")[0].removeprefix("CN=")
        directory.delete(alice)
        directory.rename(mallory, name)
        assert refused(revert(integration, made)) == NOT_REVERTIBLE
        assert directory.text(user, attribute) is None

    def test_where_it_was(
        self, integration: Integration, directory: Directory, organizational_unit: str, alice: UUID
    ) -> None:
        here, there, trap = (
            directory.guid(directory.add_unit(name, parent=organizational_unit)) for name in ("Here", "There", "Trap")
        )
        directory.move(alice, parent=directory.dn(here))
        succeeded(integration.post(f"/api/ad/users/{alice}/move", {"parent": str(there)}))
        made = latest(integration, target=alice)
        directory.rename(here, "Away")
        directory.rename(there, "Elsewhere")
        directory.rename(trap, "Here")
        succeeded(revert(integration, made))
        assert directory.dn(alice) == f"CN=Alice,{directory.dn(here)}"


class TestTombstones:
    """What a restore is refilled with comes from the log too."""

    def test_groups_and_managers(
        self, db: None, domain_without_recycle_bin: Domain, tombstone_directory: Directory
    ) -> None:
        directory = tombstone_directory
        everything = make_integration(make_connection(domain_without_recycle_bin))
        unit = directory.add_unit(random_name("unit"))
        boss, mallory = (directory.add_user(name, parent=unit) for name in ("Boss", "Mallory"))
        user = directory.add_user("Alice", parent=unit, manager=directory.dn(boss), seeAlso=directory.dn(boss))
        group = directory.add_group("Readers", parent=unit, members=[user])
        trap = directory.add_group("Writers", parent=unit)
        gone = directory.add_group("Gone", parent=unit, members=[user])
        succeeded(everything.delete(f"/api/ad/users/{user}"))
        directory.rename(group, "Readers (old)")
        directory.rename(trap, "Readers")
        directory.rename(boss, "Boss (old)")
        directory.rename(mallory, "Boss")
        directory.delete(gone)
        another = directory.add_group("Gone", parent=unit)
        held = everything.post(f"/api/ad/deleted-objects/{user}/restore")
        assert held.status == 200, held
        assert directory.members(group) == {directory.dn(user)}
        assert directory.members(trap) == directory.members(another) == set()
        assert directory.text(user, "manager") == directory.text(user, "seeAlso") == directory.dn(boss)
