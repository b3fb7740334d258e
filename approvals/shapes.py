"""How a change request is answered (docs/api.md#change-requests)."""

from collections.abc import Sequence
from typing import Annotated, Any

from typing_extensions import NotRequired, TypedDict

from approvals.models import ChangeRequest, Status
from audit.redact import HeldChangeJson, ReferenceJson, redacted
from core.call import Call
from core.operation import Risk
from core.shapes import KEPT_PROBLEM, Id, Moment, documented_as, render_timestamp
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

    What is applied goes to this object, whatever it is called by then, and to no other that has its name.
    """

    attribute: str


class FirstApprovalJson(TypedDict):
    """The first of two approvals (`Approvals:ProtectedNeedsTwo`)."""

    by: str | None
    at: Moment | None
    comment: str | None


class ChangeRequestJson(TypedDict):
    """`agent` tells that an AI agent asks, by the name in `requestedBy.keyName`, for the person in `requestedBy.owner`.

    `firstApproval` is there only for a request that two people have to approve, once one has.

    `runId` is the run that an approved change of a unit's accounts is, once it was started.
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
    firstApproval: NotRequired[FirstApprovalJson]


class CommentJson(TypedDict):
    """What somebody has asked or answered while a request waited."""

    by: str
    at: Moment
    text: str


class RequestLineJson(TypedDict):
    """A change request with what it takes to say it in words.

    `targetAccount` is the account name of its target. `unlisted` is by attribute how many values stay that the changes
    do not list: of a group's members only those that come or go are. `directory` is null for a change of the
    gateway's own keys, roles and people. `assignedTo` is who is asked to decide it.
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

    `differs` says in words how it is not like most of the others; `hindrance` why its reader may not approve it.
    """

    differs: list[str]
    mayApprove: bool
    mayReject: bool
    hindrance: str | None


class ReviewJson(RequestLineJson):
    """What a person has to know besides the change itself, and what they may do with it now.

    `summary` says in a sentence what the operation does; `riskReasons` why the change is no less dangerous.
    `approvalsNeeded` is how many more people have to approve it. `barred` says why this person must not decide it,
    though they may decide others, and `deciders` then who may. `codeNeeded` is whether approving takes a code of their
    second factor. `secretUntil` is set while a generated password waits for this person; with `secretForRequester` it
    is for the requester instead of the approver.
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
    secretUntil: Moment | None
    secretForRequester: bool


class GivenSecret(TypedDict):
    """A password that the gateway generated while it applied the change; null when an idempotency key is replayed."""

    generatedPassword: str | None


class WaitingJson(TypedDict):
    """What could be decided now, by risk."""

    ordinary: int
    destructive: int
    security: int


class EndedJson(TypedDict):
    """What was decided, by its state of now, and what expired without a decision."""

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
    """The queue as it is, and how the time since `since` went. Times are seconds; null when there is nothing to say."""

    waiting: WaitingJson
    oldestWaitingSeconds: int | None
    since: Moment | None
    ended: EndedJson
    medianSecondsToDecide: int | None


def changes_to_keep(changes: Sequence[AttributeChange], of_each: Sequence[list[ReferenceJson]]) -> list[HeldChangeJson]:
    """Changes as a request keeps them: with the objects that their values name, and how many values stay unlisted."""
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


def unlisted_values(change_request: ChangeRequest) -> dict[str, int]:
    """By attribute how many values stay that the changes do not list."""
    return {item["attribute"]: item["kept"] for item in change_request.changes if "kept" in item}


def line_as_json(call: Call, change_request: ChangeRequest, record: ChangeRequestJson) -> RequestLineJson:
    """A request with what it takes to say it in words; `record` is what its reader may see of it."""
    may_see = may_see_values(call)
    return {
        "changeRequest": record,
        "targetAccount": change_request.target_account if may_see else None,
        "targetKind": change_request.target_kind,
        "directory": change_request.directory,
        # Those who are confined may not see all of them, and so not how many there are.
        "unlisted": unlisted_values(change_request) if may_see and not call.scopes else {},
        "assignedTo": change_request.assigned_to,
        "comments": [
            {"by": each["by"], "at": each["at"], "text": each["text"]} for each in change_request.comments or ()
        ],
    }


def facts_of(change_request: ChangeRequest) -> ChangeFacts:
    """A request as it is said in words, to people who may see all of it."""
    return change_facts(
        change_request.operation,
        change_request.changes,
        distinguished_name=change_request.target_dn,
        target_id=str(change_request.target_id) if change_request.target_id else None,
        account_name=change_request.target_account,
        kind=change_request.target_kind,
        references=[each for item in change_request.changes for each in item.get("references", ())],
        own=change_request.directory_id is None,
    )


def target_as_json(change_request: ChangeRequest) -> ChangeTargetJson:
    target = change_request.target_id
    return {"id": str(target) if target else None, "distinguishedName": change_request.target_dn}


def change_request_as_json(change_request: ChangeRequest) -> ChangeRequestJson:
    record: ChangeRequestJson = {
        "id": str(change_request.id),
        "status": change_request.status,
        "operation": change_request.operation,
        "risk": change_request.risk,
        "target": target_as_json(change_request),
        "requestedBy": {"owner": change_request.requester, "keyName": change_request.key_name},
        "agent": change_request.agent,
        "reason": change_request.reason,
        "changes": [
            {"attribute": item["attribute"], "current": item["before"], "proposed": item["after"]}
            for item in change_request.changes
        ],
        "references": [
            {
                "attribute": item["attribute"],
                "name": reference["name"],
                "id": reference["id"],
                "kind": reference["kind"],
                "accountName": reference["accountName"],
            }
            for item in change_request.changes
            for reference in item.get("references", ())
        ],
        "digest": change_request.digest,
        "createdAt": render_timestamp(change_request.created_at),
        "expiresAt": render_timestamp(change_request.expires_at),
        "decidedBy": change_request.decided_by,
        "decidedAt": render_timestamp(change_request.decided_at),
        "comment": change_request.comment,
        "problem": change_request.problem,
        "runId": str(change_request.run_id) if change_request.run_id else None,
    }
    if change_request.first_approved_by_id is not None:
        record["firstApproval"] = {
            "by": change_request.first_approved_by,
            "at": render_timestamp(change_request.first_approved_at),
            "comment": change_request.first_comment,
        }
    return record
