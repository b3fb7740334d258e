"""Approving asks for the second factor again, where the configuration and the person have one."""

from collections.abc import Sequence
from typing import Any

import pytest

from approvals.models import ChangeRequest
from keys.models import FailedSignIn, RecoveryCode, SecondFactor
from keys.permissions.effective import reference_to
from keys.sign_in import second_factor
from tests.approvals.proposals import hold
from tests.audit.calls import make_call
from tests.keys.authenticator import code_of
from tests.support.cast import Answer, Console, make_person
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db

DECIDE = "approvals.decide_change"


@pytest.fixture(autouse=True)
def asked(configure: Configure) -> None:
    configure("Approvals", ConfirmSecondFactor=True)


class Approver(Console):
    """Somebody with a second factor: the secret of their authenticator, and their recovery codes."""

    secret: str
    recovery: Sequence[str]


@pytest.fixture
def approver() -> Approver:
    console = Approver(make_person(may=[DECIDE]))
    secret = second_factor.enrol(console.person).secret
    call = make_call(person=reference_to(console.person))
    console.recovery = second_factor.confirm(call, console.person, code_of(secret, steps=-1))
    console.secret = secret
    return console


def approve(console: Console, held: ChangeRequest, **more: Any) -> Answer:
    return console.post(f"/rest/change-requests/{held.id}/approve", {"digest": held.digest, **more})


def status_of(held: ChangeRequest) -> str:
    held.refresh_from_db()
    return held.status


def test_it_works(approver: Approver) -> None:
    held = hold()
    assert approver.get(f"/rest/change-requests/{held.id}/review").body["codeNeeded"] is True
    assert approve(approver, held, code=code_of(approver.secret)).status == 200
    assert status_of(held) == "approved"


@pytest.mark.parametrize("code", [None, "000000", ""])
def test_refused_without_the_right_code(code: str | None, approver: Approver) -> None:
    held = hold()
    refused = approve(approver, held, **({} if code is None else {"code": code}))
    assert (refused.status, refused.code) == (422, "Approvals.CodeWrong")
    assert refused.body["errors"][0]["pointer"] == "#/code"
    assert status_of(held) == "pending"


def test_a_code_counts_once(approver: Approver) -> None:
    code = code_of(approver.secret)
    assert approve(approver, hold(), code=code).status == 200
    assert approve(approver, hold(), code=code).code == "Approvals.CodeWrong"
    assert approve(approver, hold(), code=approver.recovery[0]).status == 200
    assert approve(approver, hold(), code=approver.recovery[0]).code == "Approvals.CodeWrong"
    assert RecoveryCode.objects.count() == 9


def test_wrong_ones_are_counted_though_the_approval_was_undone(approver: Approver) -> None:
    held = hold()
    for _ in range(5):
        assert approve(approver, held, code="000000").status == 422
    assert FailedSignIn.objects.filter(state="wrong").count() == 5
    refused = approve(approver, held, code=code_of(approver.secret))
    assert "too many wrong codes" in refused.body["detail"]
    assert status_of(held) == "pending"


def test_rejecting_needs_none(approver: Approver) -> None:
    held = hold()
    assert approver.post(f"/rest/change-requests/{held.id}/reject", {"comment": "no"}).status == 200


def test_whoever_has_none_is_not_asked() -> None:
    console, held = Console(make_person(may=[DECIDE])), hold()
    SecondFactor.objects.create(person=console.person, secret="JBSWY3DPEHPK3PXP")  # begun, not confirmed
    assert console.get(f"/rest/change-requests/{held.id}/review").body["codeNeeded"] is False
    assert approve(console, held).status == 200


def test_not_asked_by_default(approver: Approver, configure: Configure) -> None:
    configure("Approvals", ConfirmSecondFactor=False)
    assert approve(approver, hold(), code="000000").status == 422, "what is given is looked at"
    assert approve(approver, hold()).status == 200


def test_in_the_console(approver: Approver) -> None:
    held = hold()
    assert 'name="code"' in approver.get(f"/console/changes/{held.id}").body.decode()
    path = f"/console/changes/{held.id}/approve"
    refused = approver.submit(path, digest=held.digest, code="000000")
    assert (refused.status, status_of(held)) == (422, "pending")
    assert "This code is wrong" in refused.body.decode()
    assert approver.submit(path, digest=held.digest, code=code_of(approver.secret)).status == 302
    assert status_of(held) == "approved"
