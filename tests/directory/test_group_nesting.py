"""Groups in groups: no cycle, however it comes about, and scopes that suit each other."""

from uuid import UUID

import pytest

from active_directory import GroupType
from lab.directory import Directory
from tests.directory.members import change, counts, records
from tests.support.cast import (
    Integration,
)
from tests.support.mishaps import just_before_the_write

SECURITY = GroupType.SECURITY_ENABLED


def test_cycles_of_every_length(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    inner = directory.add_group("g0", parent=organizational_unit)
    chain = [inner]
    for number in range(1, 6):
        chain.append(directory.add_group(f"g{number}", parent=organizational_unit, members=[chain[-1]]))
    for depth, outer in enumerate(chain):
        answer = change(integration, inner, add=[outer])
        assert (answer.status, answer.code) == (409, "AD.Group.Cycle"), depth
        body = {"add": {"member": directory.dn(outer)}}
        assert integration.patch(f"/api/ad/groups/{inner}", body).code == "AD.Group.Cycle"
        assert integration.patch(f"/api/ad/objects/{inner}", {"replace": body["add"]}).code == "AD.Group.Cycle"
    assert directory.members(inner) == set()
    assert change(integration, chain[5], add=[inner]).body == counts(added=1)


def test_a_cycle_among_several(integration: Integration, directory: Directory, organizational_unit: str) -> None:
    target = directory.add_group("target", parent=organizational_unit)
    holder = directory.add_group("holder", parent=organizational_unit, members=[target])
    harmless = directory.add_group("harmless", parent=organizational_unit)
    assert change(integration, target, add=[harmless, holder]).code == "AD.Group.Cycle"
    # An older cycle, made elsewhere, ends no search and harms no other change.
    directory.add_values(target, member=directory.dn(holder))
    assert change(integration, target, add=[harmless]).body == counts(added=1)
    assert change(integration, target, remove=[holder]).body == counts(removed=1)


@pytest.mark.parametrize("way", ["members", "update"])
def test_a_cycle_made_at_the_same_moment_is_taken_back(
    integration: Integration,
    ada: UUID,
    directory: Directory,
    organizational_unit: str,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """Between proposal and write somebody else nests the two the other way round, through a third group."""
    holder = directory.add_group("holder", parent=organizational_unit, members=[ada], description="before")
    between = directory.add_group("between", parent=organizational_unit, members=[holder])
    held = directory.add_group("held", parent=organizational_unit)
    just_before_the_write(monkeypatch, lambda: directory.add_values(held, member=directory.dn(between)))
    if way == "members":
        answer = change(integration, holder, add=[held], remove=[ada])
    else:
        updates = {"add": {"member": directory.dn(held)}, "remove": {"member": directory.dn(ada)}}
        answer = integration.patch(f"/api/ad/groups/{holder}", {**updates, "replace": {"description": "after"}})
    assert (answer.status, answer.code) == (409, "AD.Group.Cycle"), answer
    assert (directory.members(holder), directory.members(held)) == ({directory.dn(ada)}, {directory.dn(between)})
    assert directory.text(holder, "description") == "before"
    made, rollback = records()
    assert (made.outcome, rollback.outcome, rollback.operation) == ("succeeded", "succeeded", "groups.update")
    assert rollback.changes == [
        {"attribute": each["attribute"], "before": each["after"], "after": each["before"]} for each in made.changes
    ]
    assert (rollback.reason or "").startswith("Taken back: ")


def test_a_cycle_of_others_takes_nothing_back(
    integration: Integration, directory: Directory, organizational_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, other, harmless = (directory.add_group(parent=organizational_unit) for _ in range(3))
    directory.add_values(group, member=directory.dn(other))
    just_before_the_write(monkeypatch, lambda: directory.add_values(other, member=directory.dn(group)))
    assert change(integration, group, add=[harmless]).body == counts(added=1)
    assert len(records()) == 1


@pytest.mark.parametrize(
    ("holder", "held", "is_allowed"),
    [
        (GroupType.GLOBAL, GroupType.GLOBAL, True),
        (GroupType.GLOBAL, GroupType.UNIVERSAL, False),
        (GroupType.GLOBAL, GroupType.DOMAIN_LOCAL, False),
        (GroupType.UNIVERSAL, GroupType.GLOBAL, True),
        (GroupType.UNIVERSAL, GroupType.UNIVERSAL, True),
        (GroupType.UNIVERSAL, GroupType.DOMAIN_LOCAL, False),
        (GroupType.DOMAIN_LOCAL, GroupType.GLOBAL, True),
        (GroupType.DOMAIN_LOCAL, GroupType.UNIVERSAL, True),
        (GroupType.DOMAIN_LOCAL, GroupType.DOMAIN_LOCAL, True),
    ],
)
def test_scopes_of_groups(
    integration: Integration,
    directory: Directory,
    organizational_unit: str,
    holder: GroupType,
    held: GroupType,
    is_allowed: bool,
) -> None:
    outer = directory.add_group(parent=organizational_unit, group_type=(holder | SECURITY).signed)
    inner = directory.add_group(parent=organizational_unit, group_type=(held | SECURITY).signed)
    update = integration.patch(f"/api/ad/groups/{outer}?dryRun=true", {"add": {"member": directory.dn(inner)}})
    answer = change(integration, outer, add=[inner])
    body = {"name": "new", "parent": organizational_unit, "type": "security", "scope": _NAMES[holder]}
    created = integration.post("/api/ad/groups", {**body, "add": {"member": directory.dn(inner)}})
    if is_allowed:
        assert (update.status, answer.body, created.status) == (200, counts(added=1), 201)
    else:
        assert (created.status, created.code) == (422, "AD.Directory.Rejected")
        assert (answer.status, answer.code) == (422, "AD.Directory.Rejected")
        assert "group cannot have a" in answer.body["detail"]
        assert (update.status, update.code) == (422, "AD.Directory.Rejected")


_NAMES = {GroupType.GLOBAL: "global", GroupType.UNIVERSAL: "universal", GroupType.DOMAIN_LOCAL: "domainLocal"}


@pytest.mark.parametrize(
    ("before", "after", "other", "is_held"),
    [
        (GroupType.DOMAIN_LOCAL, GroupType.UNIVERSAL, GroupType.DOMAIN_LOCAL, True),
        (GroupType.UNIVERSAL, GroupType.GLOBAL, GroupType.UNIVERSAL, True),
        (GroupType.GLOBAL, GroupType.UNIVERSAL, GroupType.GLOBAL, False),
        (GroupType.UNIVERSAL, GroupType.DOMAIN_LOCAL, GroupType.UNIVERSAL, False),
    ],
)
def test_a_scope_that_does_not_suit_the_nesting(
    integration: Integration,
    directory: Directory,
    organizational_unit: str,
    before: GroupType,
    after: GroupType,
    other: GroupType,
    is_held: bool,
) -> None:
    group = directory.add_group("changed", parent=organizational_unit, group_type=(before | SECURITY).signed)
    nested = directory.add_group("other", parent=organizational_unit, group_type=(other | SECURITY).signed)
    holder, held = (group, nested) if is_held else (nested, group)
    directory.add_values(holder, member=directory.dn(held))
    answer = integration.patch(f"/api/ad/groups/{group}", {"group": {"scope": _NAMES[after]}})
    assert (answer.status, answer.code) == (422, "AD.Directory.Rejected"), answer
    assert directory.dn(nested) in answer.body["detail"]
    update = {"replace": {"groupType": str((after | SECURITY).signed)}}
    assert integration.patch(f"/api/ad/objects/{group}", update).code == "AD.Directory.Rejected"
    assert directory.text(group, "groupType") == str((before | SECURITY).signed)
    directory.remove_values(holder, member=directory.dn(held))
    assert integration.patch(f"/api/ad/groups/{group}", {"group": {"scope": _NAMES[after]}}).status == 200


def test_a_member_that_does_not_suit_leaves_with_the_scope(
    integration: Integration, directory: Directory, organizational_unit: str
) -> None:
    local = (GroupType.DOMAIN_LOCAL | SECURITY).signed
    held = directory.add_group(parent=organizational_unit, group_type=local)
    group = directory.add_group(parent=organizational_unit, group_type=local, members=[held])
    body = {"group": {"scope": "universal"}, "remove": {"member": directory.dn(held)}}
    assert integration.patch(f"/api/ad/groups/{group}", body).status == 200
