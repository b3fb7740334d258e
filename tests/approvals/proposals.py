"""Proposals and held changes as the pipeline would make them, for what is tested below it."""

from typing import Any
from uuid import uuid4

from approvals import queue
from approvals.models import ChangeRequest
from approvals.supervision import Assessment
from core.call import Call, CredentialKind, CredentialRef, PersonRef, Surface
from core.operation import Risk
from directory.shapes.proposal import AttributeChange, Proposal, Target
from tests.audit.calls import CALL, make_call

APPROVER = PersonRef(id=9_000_009, username="grace", display_name="Grace Hopper")
IN_CONSOLE = make_call(
    surface=Surface.REST,
    person=APPROVER,
    credential=CredentialRef(kind=CredentialKind.SESSION, id="session"),
    permissions=frozenset({"approvals.decide_change", "directory.read_object"}),
)
SECURITY = Assessment(Risk.SECURITY, ("This is a security change: it writes mail.",))
MAIL = AttributeChange("mail", ("old@example.test",), ("new@example.test",))


def make_proposal(*changes: AttributeChange, **fields: Any) -> Proposal:
    target = Target(id=uuid4(), kind="user", distinguished_name="CN=Ada,OU=Sales,DC=corp")
    return Proposal(**{"target": target, "changes": changes or (MAIL,), "answer": dict, **fields})


def hold(call: Call = CALL, *, document: Any = None, **fields: Any) -> ChangeRequest:
    """Ada's key asks for a change of somebody's mail address."""
    proposal = make_proposal(**fields)
    return queue.hold(
        call,
        operation="users.update",
        arguments={"id": str(proposal.target.id)},
        query={},
        document={"replace": {"mail": ["new@example.test"]}} if document is None else document,
        proposal=proposal,
        assessment=SECURITY,
    )
