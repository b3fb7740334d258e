"""Requests decided together: what a group overwrites and who joins which group are said in the open."""

import re
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from approvals.models import ChangeRequest
from core.call import SupervisionLevel
from core.operation import Risk
from directory.models import DirectoryConnection
from directory.shapes.proposal import AttributeChange, Target
from lab.directory import Directory
from tests.approvals.proposals import hold
from tests.audit.calls import call_named, make_call
from tests.console.pages import text_of
from tests.console.plain_browser import PlainBrowser
from tests.support.cast import Answer, Console, make_integration, make_person
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db


def ask(
    name: str, change: AttributeChange, operation: str, object_id: UUID | None = None, *, protected: bool = False
) -> str:
    target = Target(id=object_id, kind="user", distinguished_name=f"CN={name},DC=corp")
    held = hold(make_call(**call_named(operation)), target=target, changes=(change,), protected=protected)
    ChangeRequest.objects.filter(id=held.id).update(operation=operation, risk=Risk.ORDINARY)
    return str(held.id)


def words_of(answer: Answer) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", text_of(answer)).split())


def test_a_group_says_what_it_overwrites_and_whom_it_lets_into_sensitive_groups() -> None:
    console = Console(make_person(superuser=True))
    ids = [
        ask(f"P{number}", AttributeChange("department", (old,), ("Sales",)), "users.update")
        for number, old in enumerate(["IT"] * 4 + ["Legal"])
    ]
    ChangeRequest.objects.filter(id=ids[0]).update(revert_after=7200, reason="On trial")
    page = words_of(console.get(f"/console/changes/together?ids={','.join(ids)}"))
    for part in (
        "2 hours",
        "“On trial”",
        "Another reason",
        "IT (4)",
        "Legal (1)",
        "Department so far: Legal instead of IT",
    ):
        assert part in page, part

    joins = AttributeChange("member", (), ("CN=Ada,DC=corp",))
    ids = [
        *(ask("Analysts", joins, "groups.change-members") for _ in range(2)),
        ask("Key Holders", joins, "groups.change-members", protected=True),
    ]
    page = words_of(console.get(f"/console/changes/together?ids={','.join(ids)}"))
    table = page[page.index("Joins it") :]
    assert table.index("Key Holders") < table.index("protected") < table.index("Analysts")

    assert "A protected object" in page
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


def test_stale_ones_are_rejected_or_asked_for_anew_together(
    connection: DirectoryConnection, directory: Directory, organizational_unit: str, configure: Configure
) -> None:
    careful = make_integration(connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    people = [directory.add_user(parent=organizational_unit, title="Analyst") for _ in range(3)]
    held = [
        careful.patch(f"/api/ad/users/{user}", {"replace": {"title": "Countess"}}).body["changeRequest"]["id"]
        for user in people
    ]
    for user in people[:2]:
        directory.modify(user, title="Baroness")
    page = PlainBrowser(Console(make_person(may=["approvals.decide_change", "directory.read_object"])))
    forecasts = f"/console/changes/together/forecasts?ids={','.join(held)}"
    page.open(forecasts).press("Ask for the stale ones anew")
    assert "These new requests have the present values." in page.text
    waiting = ChangeRequest.objects.filter(status="pending")
    assert {request.target_id for request in waiting} == set(people)
    assert ChangeRequest.objects.filter(status="rejected").count() == 2
    for user in people[:2]:
        directory.modify(user, title="Duchess")
    forecasts = f"/console/changes/together/forecasts?ids={','.join(str(request.id) for request in waiting)}"
    page.open(forecasts).press("Reject the stale ones")
    assert [request.target_id for request in ChangeRequest.objects.filter(status="pending")] == [people[2]]
    directory.modify(people[2], title="Princess")
    configure("Approvals", BaseUrl="https://gateway.example.test")
    configure("SignIn", ApproversNeed="passkey")
    assert "This decision takes a passkey, and you have none." in page.open(forecasts).text


def test_generated_passwords_are_handed_over_together_each_once() -> None:
    console = Console(make_person(superuser=True))
    title = AttributeChange("unicodePwd", (), ("(hidden)",))
    ids = [ask(name, title, "users.reset-password") for name in ("Ada", "Bea", "Zoe")]
    until = timezone.now() + timedelta(hours=1)
    for id, decider in zip(ids, (console.person.id, console.person.id, 0), strict=True):
        taken = {"secret": f"secret of {id}", "secret_until": until, "decided_by_id": decider}
        ChangeRequest.objects.filter(id=id).update(status="applied", **taken)
    page = PlainBrowser(console)
    page.open(f"/console/changes/together?ids={','.join(ids)}").press("Show the 2 generated passwords once")
    assert [f"secret of {id}" in page.text for id in ids] == [True, True, False]
    assert [str(kept.id) for kept in ChangeRequest.objects.filter(secret_until__isnull=False)] == ids[2:]
    assert "secret of" not in page.open(page.address).text


def test_what_is_no_request_takes_no_password_with_it() -> None:
    console = Console(make_person(superuser=True))
    id = ask("Ada", AttributeChange("unicodePwd", (), ("(hidden)",)), "users.reset-password")
    taken = {"secret": "for Ada", "secret_until": timezone.now() + timedelta(hours=1)}
    ChangeRequest.objects.filter(id=id).update(status="applied", decided_by_id=console.person.id, **taken)
    answer = console.submit("/console/changes/together/passwords", change=[id, "none"])
    page = text_of(console.get(answer.headers["Location"]))
    assert "for Ada" in page
    assert "There is nothing at this address" in page
    assert console.submit("/console/changes/together/ask-anew", change="none").status == 302
