"""Change requests as JSON (docs/api.md#change-requests)."""

from collections.abc import Sequence
from typing import Annotated, Any

from typing_extensions import NotRequired, TypedDict

from approvals.models import ChangeRequest, Status
from audit.redact import HeldChangeJson, ReferenceJson, redacted
from core.call import Call
from core.operation import Risk
from core.shapes import KEPT_PROBLEM, Id, Moment, as_record, documented_as, render_timestamp
from directory.lookup.visibility import may_see_values
from directory.shapes.proposal import AttributeChange
from directory.shapes.wording.change_words import ChangeFacts, change_facts


class ChangeTargetJson(TypedDict):
    id: Id | None
    distinguishedName: str


class RequestedByJson(TypedDict):
    owner: str
    keyName: str | None


class ProposedChangeJson(TypedDict):
    attribute: str
    current: list[str]
    proposed: list[str]


class ProposedReferenceJson(ReferenceJson):
    """An object that values of an attribute refer to: a member, a manager, a parent.

    The change is applied with this object, even if it has been renamed by then, and never with another of its name.
    """

    attribute: str


class FirstApprovalJson(TypedDict):
    """The first of two approvals (`Approvals:ProtectedNeedsTwo`)."""

    by: str | None
    at: Moment | None
    comment: str | None


class ChangeRequestJson(TypedDict):
    """`agent` tells that an AI agent, named in `requestedBy.keyName`, asks for the person in `requestedBy.owner`.

    `firstApproval` is present if two people have to approve and one has.

    `runId` is the run of an approved change of a unit's accounts, once it has started.

    `dueAt` is when a change for later is to be made, or when a change ends; `ends` is then the log record of the change
    that ends. `revertAt`, or `revertAfter` (an ISO 8601 duration), is the end of a change that is still to be made.
    """

    id: Id
    status: Annotated[str, documented_as(Status)]
    operation: str
    risk: Annotated[str, documented_as(Risk)]
    target: ChangeTargetJson
    requestedBy: RequestedByJson
    agent: bool
    reason: str | None
    changes: list[ProposedChangeJson]
    references: list[ProposedReferenceJson]
    digest: str
    createdAt: Moment | None
    expiresAt: Moment | None
    decidedBy: str | None
    decidedAt: Moment | None
    comment: str | None
    problem: Annotated[dict[str, Any], KEPT_PROBLEM] | None
    runId: Id | None
    dueAt: Moment | None
    revertAt: Moment | None
    revertAfter: str | None
    ends: Id | None
    firstApproval: NotRequired[FirstApprovalJson]


class CommentJson(TypedDict):
    """A comment on a request while it waited."""

    by: str
    at: Moment
    text: str


class RequestLineJson(TypedDict):
    """A change request with what it takes to describe it in words.

    `targetAccount` is the account name of its target. `unlisted` counts, by attribute, the values that stay and that
    the changes do not list: of a group's members they list only those added or removed. `directory` is null for a
    change of the gateway's own keys, roles and people. `assignedTo` is the person who is asked to decide it.
    """

    changeRequest: ChangeRequestJson
    targetAccount: str | None
    targetKind: str
    directory: str | None
    unlisted: dict[str, int]
    assignedTo: str | None
    comments: list[CommentJson]


class TogetherItemJson(RequestLineJson):
    """One of the requests, with what its reader may do with it now.

    `differs` says in words how it differs from most of the others; `hindrance` why the reader may not approve it.
    `protected` is whether its target is a protected object.
    """

    protected: bool
    differs: list[str]
    mayApprove: bool
    mayReject: bool
    hindrance: str | None


class ReviewJson(RequestLineJson):
    """A request with what its approver has to know, and what the reader may do with it now.

    `summary` says in a sentence what the operation does; `riskReasons` explain its risk. `approvalsNeeded` is how many
    more people have to approve it. `barred` says why the reader must not decide this request, though they may decide
    others, and `deciders` then who may. `codeNeeded` is whether approving takes a code of the reader's second factor.
    `passkeyNeeded` is whether deciding takes a passkey. `unusual` says how a waiting request differs from what its
    requester asked for before; it is empty for readers with scopes.
    `secretUntil` is set while a generated password waits for the reader; with `secretForRequester` it is for the
    requester instead of the approver.
    """

    summary: str
    riskReasons: list[str]
    clientAddress: str | None
    requestId: str
    approvalsNeeded: int
    own: bool
    mayApprove: bool
    mayReject: bool
    mayCancel: bool
    barred: str | None
    deciders: list[str]
    codeNeeded: bool
    passkeyNeeded: bool
    unusual: list[str]
    secretUntil: Moment | None
    secretForRequester: bool


class GivenSecret(TypedDict):
    """A password that the gateway generated while it applied the change; null when an idempotency key is replayed."""

    generatedPassword: str | None


class WaitingJson(TypedDict):
    """How many requests could be decided now, by risk."""

    ordinary: int
    destructive: int
    security: int


class EndedJson(TypedDict):
    """How many requests were decided, by their present state, and how many expired without a decision."""

    approved: int
    applying: int
    applied: int
    partlyFailed: int
    failed: int
    unknown: int
    stale: int
    rejected: int
    expired: int


class StatisticsJson(TypedDict):
    """The queue now, and what has happened since `since`. Times are in seconds; null without any request."""

    waiting: WaitingJson
    oldestWaitingSeconds: int | None
    since: Moment | None
    ended: EndedJson
    medianSecondsToDecide: int | None


def changes_to_keep(changes: Sequence[AttributeChange], of_each: Sequence[list[ReferenceJson]]) -> list[HeldChangeJson]:
    """Changes as a request keeps them: with the objects that their values name, and the number of unlisted values."""
    kept: list[HeldChangeJson] = []
    for change, shown in zip(changes, redacted(change.as_json() for change in changes), strict=True):
        item: HeldChangeJson = {"attribute": shown["attribute"], "before": shown["before"], "after": shown["after"]}
        if change.kept is not None:
            item["kept"] = change.kept
        kept.append(item)
    for item, references in zip(kept, of_each, strict=False):
        if references:
            item["references"] = references
    return kept


def line_as_json(call: Call, change_request: ChangeRequest, record: ChangeRequestJson) -> RequestLineJson:
    """A request with what it takes to describe it in words; `record` is what the reader may see of it."""
    may_see = may_see_values(call)
    # Confined readers may not see all values, nor learn how many there are.
    counted = change_request.changes if may_see and not call.scopes else []
    return {
        "changeRequest": record,
        "targetAccount": change_request.target_account if may_see else None,
        "targetKind": change_request.target_kind,
        "directory": change_request.directory,
        "unlisted": {item["attribute"]: item["kept"] for item in counted if "kept" in item},
        "assignedTo": change_request.assigned_to,
        "comments": [
            {"by": each["by"], "at": each["at"], "text": each["text"]} for each in change_request.comments or ()
        ],
    }


def facts_of(change_request: ChangeRequest) -> ChangeFacts:
    """What it takes to describe a request in words to people who may see all of it."""
    return change_facts(
        change_request.operation,
        change_request.changes,
        target_as_json(change_request),
        account_name=change_request.target_account,
        kind=change_request.target_kind,
        references=[each for item in change_request.changes for each in item.get("references", ())],
        own=change_request.directory_id is None,
    )


def target_as_json(change_request: ChangeRequest) -> ChangeTargetJson:
    target = change_request.target_id
    return {"id": str(target) if target else None, "distinguishedName": change_request.target_dn}


def change_request_as_json(change_request: ChangeRequest) -> ChangeRequestJson:
    record = as_record(
        ChangeRequestJson,
        change_request,
        target=target_as_json(change_request),
        revertAfter=None if change_request.revert_after is None else f"PT{change_request.revert_after}S",
        requestedBy={"owner": change_request.requester, "keyName": change_request.key_name},
        changes=[
            {"attribute": item["attribute"], "current": item["before"], "proposed": item["after"]}
            for item in change_request.changes
        ],
        references=[
            {"attribute": item["attribute"], **reference}
            for item in change_request.changes
            for reference in item.get("references", ())
        ],
    )
    if change_request.first_approved_by_id is not None:
        record["firstApproval"] = {
            "by": change_request.first_approved_by,
            "at": render_timestamp(change_request.first_approved_at),
            "comment": change_request.first_comment,
        }
    return record
