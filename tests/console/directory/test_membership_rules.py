"""The pages of membership rules, and what a group's pages say of its rule."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from approvals.models import ChangeRequest
from audit.models import OperationRecord
from directory.models import DirectoryConnection, MembershipRule
from lab.directory import Directory
from tests.console.plain_browser import PlainBrowser
from tests.directory.supervised import approve
from tests.support.cast import Console, make_integration, make_person
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(superuser=True))


def read(console: Console, path: str) -> str:
    answer = console.get(f"/console/{path}")
    assert answer.status == 200, answer
    return " ".join(answer.body.decode().split())


def test_it_works(console: Console, directory: Directory, organizational_unit: str, ada: UUID) -> None:
    bob = directory.add_user(parent=organizational_unit)
    group = directory.add_group("Operators", parent=organizational_unit, members=[bob])
    assert "Make a rule" in read(console, f"directory/objects/{group}")
    assert str(group) in read(console, f"membership-rules/new?group={group}")
    hours = {"maxDuration.count": "8", "maxDuration.unit": "PT{}H"}
    longer = {**hours, "defaultDuration.count": "9"}
    refused = console.submit("/console/membership-rules/new", group=str(group), **longer)
    assert refused.status == 400
    saved = console.submit("/console/membership-rules/new", group=str(group), reasonRequired="on", **hours)
    assert saved.status == 302, saved.body
    rule = MembershipRule.objects.get()
    listed = read(console, "membership-rules/")
    assert "given for at most 8 hours" in listed
    assert '<td data-label="Permanent members">1</td>' in listed
    assert "1 permanent member, who stays" in read(console, f"membership-rules/{rule.id}")
    assert "given for at most 8 hours" in read(console, f"directory/objects/{group}")

    # Without a default the preview has the latest end; with one, that.
    change = {"add": str(ada)}
    address = f"/console/directory/objects/{group}/members/change"
    preview = console.submit(address, **change).body.decode()
    assert "given for at most 8 hours" in preview
    assert 'name="reason"' in preview
    assert "required" in preview.partition('name="reason"')[2][:200]
    revert_at = preview.partition('name="revertAt"')[2].partition('value="')[2].partition('"')[0]
    assert len(revert_at) == len("2026-12-04T18:00")
    refused = console.submit(address, **change, step="make", revertAt=revert_at)
    assert "with a reason only" in refused.body.decode()
    made = console.submit(address, **change, step="make", revertAt=revert_at, reason="INC-1")
    assert made.status == 302, made.body
    assert 'Permanent members">1</td>' in read(console, "membership-rules/")

    directory.delete(group)
    assert "The group is deleted." in read(console, "membership-rules/")
    version = {"version": str(rule.revision)}
    for fields in ({"maxDuration.count": "2", "maxDuration.unit": "P{}D"}, {"maxDuration.count": "x"}):
        answer = console.submit(f"/console/membership-rules/{rule.id}", **version, **fields)
        assert answer.status == (302 if fields.get("maxDuration.unit") else 400), answer.body
        version = {"version": "2"}
    assert console.submit(f"/console/membership-rules/{rule.id}/delete").status == 302
    records = OperationRecord.objects.filter(operation__startswith="membership-rules.", outcome="succeeded")
    changes = records.exclude(changes=[]).order_by("id").values_list("operation", flat=True)
    assert [name.partition(".")[2] for name in changes] == ["create", "update", "delete"]


def test_more_access_needs_two(console: Console, connection: DirectoryConnection, configure: Configure) -> None:
    rule = MembershipRule.objects.create(
        connection=connection, group_guid=uuid4(), group_dn="CN=Operators", max_duration=timedelta(hours=8)
    )
    configure("Approvals", AccessNeedsTwo=True)
    address = f"/rest/membership-rules/{rule.id}"
    assert console.patch(address, {"maxDuration": "PT4H", "reasonRequired": True}).status == 200  # stricter
    assert console.patch(address, {"reasonRequired": False}).status == 202
    assert console.patch(address, {"maxDuration": "P1D"}).status == 202
    assert console.patch(address, {"defaultDuration": "PT1H"}).status == 202  # an end had to be named
    assert console.delete(address).status == 202
    assert console.patch(address, {"defaultDuration": "PT30S"}).status == 400
    assert MembershipRule.objects.get().max_duration == timedelta(hours=4)


@pytest.mark.parametrize("by_key", [False, True])
def test_more_access_is_given_once_it_is_approved(
    connection: DirectoryConnection,
    directory: Directory,
    organizational_unit: str,
    configure: Configure,
    *,
    by_key: bool,
) -> None:
    rule = MembershipRule.objects.create(
        connection=connection,
        group_guid=directory.add_group(parent=organizational_unit),
        max_duration=timedelta(hours=8),
    )
    configure("Approvals", AccessNeedsTwo=True)
    key = make_integration(connection)
    asking, surface = (key, "api") if by_key else (Console(make_person(superuser=True)), "rest")
    address = f"/{surface}/membership-rules/{rule.id}"
    longer = approve(asking.patch(address, {"maxDuration": "P1D"}))
    rule.refresh_from_db()
    assert (longer.status, rule.max_duration) == ("applied", timedelta(days=1))
    held = asking.delete(address)
    if by_key:
        key.key.delete()
    assert approve(held).status == ("failed" if by_key else "applied")
    assert MembershipRule.objects.exists() is by_key


def test_several_at_once(
    administrator: PlainBrowser, connection: DirectoryConnection, directory: Directory, organizational_unit: str
) -> None:
    """What templates, movers and the lists of objects do, one change after another."""
    user = directory.add_user(parent=organizational_unit)
    groups = [directory.add_group(parent=organizational_unit) for _ in range(2)]
    hours = timedelta(hours=8)
    for group, default in zip(groups, (hours, None), strict=True):
        MembershipRule.objects.create(
            connection=connection, group_guid=group, max_duration=hours, default_duration=default
        )
    page = administrator.open(f"/console/directory/?base={directory.guid(organizational_unit)}&now=yes")
    page = page.press("With the chosen…", chosen=[str(user)], action="join")
    page = page.press("Preview", group=[directory.dn(group) for group in groups])
    assert "1 refused" in page.text
    assert "A membership of this group lasts at most PT8H: say when it ends." in page.text
    page.press("Add to the group")
    while "Go on" in page.buttons:
        page.press("Go on")
    assert [len(directory.members(group)) for group in groups] == [1, 0]
    assert ChangeRequest.objects.get(ends__isnull=False).target_id == groups[0]
