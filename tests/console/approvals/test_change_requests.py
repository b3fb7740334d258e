"""The page of a change that waits, of which some parts come after it."""

import re
from uuid import UUID

import pytest

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from lab.directory import Directory
from tests.approvals.proposals import hold
from tests.console.pages import PART, text_of
from tests.support.cast import Console, make_integration, make_person

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("part", "operation"), [("forecast", "users.update"), ("run-plan", "organization-units.disable-accounts")]
)
def test_what_is_decided_while_a_part_is_on_its_way_is_no_failure_of_the_page(part: str, operation: str) -> None:
    held = hold()
    ChangeRequest.objects.filter(id=held.id).update(status="rejected", operation=operation)
    console = Console(make_person(superuser=True))
    path = f"/console/changes/{held.id}/{part}"
    told = console.call("GET", path, **PART)
    assert (told.status, "Approvals.NotPending" in text_of(told)) == (200, True)
    assert console.get(path).status == 409, "as a page of its own it is refused"


def test_what_became_of_a_change_is_told_to_whom_its_page_is_shown() -> None:
    held = hold()
    path = f"/console/changes/{held.id}"
    for may, status in (([], 404), (["approvals.decide_change"], 200)):
        console = Console(make_person(may=may))
        answers = [console.get(path), console.get(f"{path}/outcome"), console.call("GET", f"{path}/outcome", **PART)]
        assert [answer.status for answer in answers] == [status] * 3


def test_the_object_is_shown_beside_the_change(
    connection: DirectoryConnection, ada: UUID, directory: Directory, organizational_unit: str
) -> None:
    report = directory.add_user("Bob Miller", parent=organizational_unit, manager=directory.dn(ada))
    group = directory.add_group("Analysts", parent=organizational_unit)
    directory.modify(group, member=directory.dn(ada))
    careful, free = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE), make_integration(connection)
    free.patch(f"/api/ad/users/{ada}", {"replace": {"department": "Legal"}})
    held = careful.patch(f"/api/ad/users/{ada}", {"replace": {"title": "Countess"}}).body["changeRequest"]["id"]
    auditor = make_person(may=["approvals.decide_change", "directory.read_object", "audit.read_log"])
    assert f"/console/changes/{held}/object" in text_of(Console(auditor).get(f"/console/changes/{held}"))
    shown = re.sub(
        r"\s+", " ", re.sub(r"<[^>]+>", " ", text_of(Console(auditor).get(f"/console/changes/{held}/object")))
    )
    for part in ("Ada Lovelace User Enabled", "Analyst", "Legal", "Direct reports 1", "Groups 1", "Change department"):
        assert part in shown, part
    approver = Console(make_person(may=["approvals.decide_change"]))
    assert f"{held}/object" not in text_of(approver.get(f"/console/changes/{held}"))
    assert approver.get(f"/console/changes/{held}/object").status == 403
    for gone in (report, group, ada):
        directory.delete(gone)
    told = Console(auditor).call("GET", f"/console/changes/{held}/object", **PART)
    assert (told.status, "AD.Object.NotFound" in text_of(told)) == (200, True)
