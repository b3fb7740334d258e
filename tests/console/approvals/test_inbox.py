"""Requests decided together: what a group overwrites and who joins which group are said in the open."""

import re
from uuid import UUID, uuid4

import pytest

from approvals.models import ChangeRequest
from core.operation import Risk
from directory.shapes.proposal import AttributeChange, Target
from tests.approvals.proposals import hold
from tests.audit.calls import call_named, make_call
from tests.console.pages import text_of
from tests.support.cast import Answer, Console, make_person

pytestmark = pytest.mark.django_db


def ask(
    name: str, change: AttributeChange, operation: str, risk: Risk = Risk.ORDINARY, object_id: UUID | None = None
) -> str:
    target = Target(id=object_id, kind="user", distinguished_name=f"CN={name},DC=corp")
    held = hold(make_call(**call_named(operation)), target=target, changes=(change,))
    ChangeRequest.objects.filter(id=held.id).update(operation=operation, risk=risk)
    return str(held.id)


def words_of(answer: Answer) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text_of(answer)).split())


def test_a_group_says_what_it_overwrites_and_whom_it_lets_into_sensitive_groups() -> None:
    console = Console(make_person(superuser=True))
    ids = [
        ask(f"P{number}", AttributeChange("department", (old,), ("Sales",)), "users.update")
        for number, old in enumerate(["IT"] * 4 + ["Legal"])
    ]
    page = words_of(console.get(f"/console/changes/together?ids={','.join(ids)}"))
    for part in ("IT (4)", "Legal (1)", "Department so far: Legal instead of IT"):
        assert part in page, part

    joins = AttributeChange("member", (), ("CN=Ada,DC=corp",))
    ids = [
        ask("Analysts", joins, "groups.change-members"),
        ask("Key Holders", joins, "groups.change-members", Risk.SECURITY),
    ]
    page = words_of(console.get(f"/console/changes/together?ids={','.join(ids)}"))
    table = page[page.index("Joins it") :]
    assert table.index("Key Holders") < table.index("sensitive") < table.index("Analysts")

    page = words_of(console.get(f"/console/changes/together?ids={ask('Gone', joins, 'users.delete')}"))
    assert "What is lost" in page
    assert "Becomes" not in page.partition("Each of them")[0]


def test_another_request_for_the_same_object_is_named() -> None:
    console, ada = Console(make_person(superuser=True)), uuid4()
    title = AttributeChange("title", (), ("Countess",))
    first, other = (ask("Ada", title, operation, object_id=ada) for operation in ("users.update", "users.disable"))
    assert (
        f"/console/changes/{other}" in text_of(console.get(f"/console/changes/{first}")).partition("What is asked")[0]
    )
    ChangeRequest.objects.filter(id=other).update(status="rejected")
    assert "Another change of the same object" not in text_of(console.get(f"/console/changes/{first}"))
