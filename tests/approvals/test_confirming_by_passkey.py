"""Where the configuration says so, nobody decides without a passkey, whichever way they come."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from approvals.models import ChangeRequest
from approvals.review import decisions
from approvals.supervision import Assessment
from core.call import CredentialKind, CredentialRef, Surface
from core.errors import GatewayError
from core.operation import Effect, Operation, Risk, operations
from keys.models import Passkey
from keys.permissions.effective import reference_to
from tests.approvals import proposals
from tests.approvals.proposals import hold
from tests.audit.calls import make_call
from tests.keys.passkey_device import ORIGIN, Device
from tests.keys.sign_in.test_passkeys import Owner, Visitor
from tests.support.cast import Answer, Console, make_person, send
from tests.support.configuration import Configure

pytestmark = pytest.mark.django_db

DECIDE = "approvals.decide_change"
DECISIONS = {"change-requests.approve", "change-requests.reject", "change-requests.decide"}
NEEDED = (403, "Approvals.PasskeyNeeded")


@pytest.fixture(autouse=True)
def address(configure: Configure) -> None:
    configure("Approvals", BaseUrl=ORIGIN)


@pytest.fixture(params=["ApproversNeed", "SecurityNeedsPasskey"])
def required(request: pytest.FixtureRequest, configure: Configure) -> str:
    """What asks for a passkey: for every decision, or for those about security changes, of which `hold` makes one."""
    configure("SignIn", **{request.param: "passkey" if request.param == "ApproversNeed" else True})
    return str(request.param)


class Approver(Owner):
    def decide(self, held: ChangeRequest, decision: str = "approve", **more: Any) -> Answer:
        body = {"digest": held.digest} if decision == "approve" else {"comment": "no"}
        return self.post(f"/rest/change-requests/{held.id}/{decision}", {**body, **more})

    def asked_for(self, decision: str, *held: ChangeRequest) -> dict[str, Any]:
        body = {"decision": decision, "changeRequests": named(*held)}
        answer = self.post("/rest/change-requests/passkey-options", body)
        assert answer.status == 200, answer
        return dict(answer.body["publicKey"])


def named(*held: ChangeRequest) -> list[dict[str, str]]:
    return [{"id": str(each.id), "digest": each.digest} for each in held]


def of(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.code


def status_of(held: ChangeRequest) -> str:
    held.refresh_from_db()
    return held.status


@pytest.fixture
def grace() -> Approver:
    return Approver(make_person("grace", may=[DECIDE]))


@pytest.fixture
def device(grace: Approver) -> Device:
    return grace.add()[0]


def test_it_works(grace: Approver, device: Device, required: str) -> None:
    held, other = hold(), hold()
    assert grace.get(f"/rest/change-requests/{held.id}/review").body["passkeyNeeded"] is True
    assert of(grace.decide(held)) == NEEDED
    assert of(grace.decide(held, "reject")) == NEEDED
    assert grace.decide(held, passkey=device.answer(grace.asked_for("approve", held))).status == 200
    assert grace.decide(other, "reject", passkey=device.answer(grace.asked_for("reject", other))).status == 200
    assert (status_of(held), status_of(other)) == ("approved", "rejected")


def test_it_confirms_this_decision_alone(grace: Approver, device: Device, required: str) -> None:
    """Neither another request, nor another decision, nor a changed one, nor twice, nor of another session or person."""
    held, other = hold(), hold()
    wrong = [
        device.answer(grace.asked_for("approve", other)),
        device.answer(grace.asked_for("reject", held)),
        device.answer(grace.asked_for("approve", held, other)),
        device.answer(grace.asked()),
        device.answer(grace.asked_for("approve", held), verified=False),
        device.answer(grace.asked_for("approve", held), origin="https://evil.test"),
        Device(id=device.id).answer(grace.asked_for("approve", held)),
        device.answer(Approver(grace.person).asked_for("approve", held)),
    ]
    for answer in wrong:
        assert of(grace.decide(held, passkey=answer)) == (422, "Approvals.CodeWrong")
    alan = Approver(make_person("alan", may=[DECIDE]))
    assert of(alan.decide(held, passkey=device.answer(grace.asked_for("approve", held)))) == (
        422,
        "Approvals.CodeWrong",
    )
    asked = grace.asked_for("approve", held)
    ChangeRequest.objects.filter(pk=held.pk).update(digest="0" * 64)
    assert of(grace.decide(held, passkey=device.answer(asked))) == (409, "Approvals.Changed")
    held.refresh_from_db()
    answer = device.answer(grace.asked_for("approve", held))
    assert grace.decide(held, passkey=answer).status == 200
    ChangeRequest.objects.filter(pk=held.pk).update(status="pending")
    assert of(grace.decide(held, passkey=answer)) == (422, "Approvals.CodeWrong"), "counts once"


def test_several_together(grace: Approver, device: Device, required: str) -> None:
    held = [hold(), hold()]
    ids = ",".join(str(each.id) for each in held)
    assert grace.get(f"/rest/change-requests/together?ids={ids}").body["passkeyNeeded"] is True
    body: dict[str, Any] = {"decision": "approve", "changeRequests": named(*held)}
    refused = grace.post("/rest/change-requests/decide", body)
    assert [item["problem"]["code"] for item in refused.body["results"]] == [NEEDED[1]] * 2
    one = device.answer(grace.asked_for("approve", held[0]))
    assert grace.post("/rest/change-requests/decide", {**body, "passkey": one}).status == 422
    both = device.answer(grace.asked_for("approve", *held))
    assert grace.post("/rest/change-requests/decide", {**body, "passkey": both}).body["succeeded"] == 2


def test_a_sign_in_with_a_passkey(grace: Approver, device: Device, configure: Configure) -> None:
    """It will do for all decisions, as long as the passkey is there; not for what is asked at the click."""
    configure("SignIn", ApproversNeed="passkey")
    visitor = Visitor()
    assert visitor.sign_in(device.answer(visitor.asked())) == ""
    signed_in = Approver.__new__(Approver)
    signed_in.person, signed_in.client = grace.person, visitor.client
    signed_in.token = visitor.client.cookies["csrftoken"].value
    held = hold()
    assert signed_in.get(f"/rest/change-requests/{held.id}/review").body["passkeyNeeded"] is False
    assert signed_in.decide(held).status == 200
    configure("SignIn", SecurityNeedsPasskey=True)
    assert of(signed_in.decide(hold())) == NEEDED
    configure("SignIn", SecurityNeedsPasskey=False)
    Passkey.objects.all().delete()
    assert of(signed_in.decide(hold())) == NEEDED


def test_ordinary_changes_are_not_asked_for_at_the_click(
    grace: Approver, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("SignIn", SecurityNeedsPasskey=True)
    monkeypatch.setattr(proposals, "SECURITY", Assessment(Risk.ORDINARY, ("It writes mail.",)))
    assert grace.decide(hold()).status == 200


def test_in_place_of_a_code(grace: Approver, device: Device, configure: Configure) -> None:
    configure("Approvals", ConfirmSecondFactor=True)
    held = hold()
    assert of(grace.decide(held)) == (422, "Approvals.CodeWrong")
    assert grace.decide(held, passkey=device.answer(grace.asked_for("approve", held))).status == 200


def test_in_the_console(grace: Approver, required: str) -> None:
    held = hold()
    assert "you have none" in grace.get(f"/console/changes/{held.id}").body.decode()
    device, _ = grace.add()
    change = f"{held.id}:{held.digest}"
    assert 'data-options="/console/changes/passkey"' in grace.get(f"/console/changes/{held.id}").body.decode()
    assert grace.submit(f"/console/changes/{held.id}/approve", digest=held.digest).status == 403
    answer = grace.submit("/console/changes/passkey", decision="approve", change=change)
    confirmed = device.answer(json.loads(answer.body)["publicKey"])
    approve = f"/console/changes/{held.id}/approve"
    assert grace.submit(approve, digest=held.digest, passkey=confirmed).status == 302
    assert status_of(held) == "approved"
    other = hold()
    fields = {"decision": "reject", "change": f"{other.id}:{other.digest}"}
    asked = json.loads(grace.submit("/console/changes/passkey", **fields).body)["publicKey"]
    decided = grace.submit(
        "/console/changes/together/decide", comment="no", passkey=device.answer(asked), ids=str(other.id), **fields
    )
    assert (decided.status, status_of(other)) == (302, "rejected")


# --- every way in


def _deciding() -> list[Operation]:
    return [item for item in operations() if DECIDE in item.permission and item.effect is not Effect.READ]


def test_every_operation_that_decides(grace: Approver, required: str) -> None:
    """Over the registry: what changes something with this permission decides nothing unless a passkey is used."""
    for operation in _deciding():
        assert operation.surfaces == {Surface.REST}, f"{operation.name}: neither keys nor agents decide"
        held = hold()
        body: dict[str, Any] = {"digest": held.digest} if operation.action == "approve" else {"comment": "no"}
        if operation.action == "decide":
            body = {"decision": "approve", "changeRequests": named(held)}
        elif operation.action not in ("approve", "reject"):
            body = {"username": None} if operation.action == "assign" else {}
        path = operation.path.replace("{id}", str(held.id))
        answer = grace.call(operation.method, f"/rest/{path}", body)
        assert status_of(held) in ("pending", "stale"), operation.name
        if operation.name in DECISIONS:
            assert of(answer) == NEEDED or answer.body["failed"] == 1, operation.name
    assert {item.name for item in _deciding()} >= DECISIONS


KINDS = [CredentialKind.API_KEY, CredentialKind.PLATFORM_TOKEN, CredentialKind.SESSION, CredentialKind.AGENT_TOKEN]


@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("kind", KINDS)
def test_every_surface_and_credential(surface: Surface, kind: CredentialKind, configure: Configure) -> None:
    """Below the pipeline, where all ways meet: what is declared on another surface one day finds the same refusal."""
    configure("SignIn", ApproversNeed="passkey")
    person, held = make_person(may=[DECIDE]), hold()
    call = make_call(surface=surface, person=reference_to(person), credential=CredentialRef(kind=kind, id="x"))
    deciding: list[Callable[[], ChangeRequest]] = [
        lambda: decisions.approve(call, held.id, digest=held.digest),
        lambda: decisions.reject(call, held.id, comment="no"),
    ]
    for decide in deciding:
        with pytest.raises(GatewayError) as refusal:
            decide()
        assert (refusal.value.status, refusal.value.code) == NEEDED
    assert status_of(held) == "pending"


def test_a_platform_token_decides_nothing(grace: Approver, configure: Configure) -> None:
    configure("SignIn", ApproversNeed="passkey")
    token = grace.post("/rest/session/access-token").body["accessToken"]
    for prefix in ("api", "rest"):
        path = f"/{prefix}/change-requests/{hold().id}/reject"
        assert send(Client(), "POST", path, {"comment": "no"}, Authorization=f"Bearer {token}").status in (401, 404)


def test_only_decisions_decides() -> None:
    """Nothing else in the product moves a request to approved or rejected, around `needs_passkey`."""
    files = [
        file for app in ("approvals", "operations", "gateway", "console", "keys") for file in Path(app).rglob("*.py")
    ]
    found = {
        str(file)
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("move", "_decide") and len(node.args) > 2
        if ast.unparse(node.args[2]) in ("Status.APPROVED", "Status.REJECTED")
    }
    # The time has come of what was approved before it, or of what nobody has to approve.
    assert found == {"approvals/review/decisions.py", "approvals/ends.py"}


def test_options_are_for_those_who_decide(grace: Approver, device: Device) -> None:
    held = hold()
    assert len(grace.asked_for("approve", held)["allowCredentials"]) == 1
    body = {"decision": "approve", "changeRequests": named(held)}
    assert Console(make_person()).post("/rest/change-requests/passkey-options", body).status == 403
