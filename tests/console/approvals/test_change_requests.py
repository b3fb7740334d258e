"""The page of a change that waits, of which some parts come after it."""

import pytest

from approvals.models import ChangeRequest
from tests.approvals.proposals import hold
from tests.console.pages import PART, text_of
from tests.support.cast import Console, make_person

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
