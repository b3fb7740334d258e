"""How a record of the operations log is answered (docs/api.md#log-records)."""

from typing import Annotated, Any, cast

from typing_extensions import NotRequired, TypedDict

from audit.models import OperationRecord, Outcome, Reversible
from audit.redact import ChangeJson
from audit.reverts import reverted_by
from core.call import Surface
from core.shapes import Id, Moment, documented_as, render_timestamp


class RecordTargetJson(TypedDict):
    id: Id | None
    kind: str | None
    distinguishedName: str | None


class FoldedJson(TypedDict):
    """The records of a run or batch that one stands for: how many, how many of them failed, and what was done."""

    count: int
    failed: int
    operations: list[str]


class RecordJson(TypedDict):
    """`raisesAccess` is there only for a change of the gateway's own tables that lets somebody do more than before: it
    says in words what. `callId` is the gateway's own identifier of the request that made a change: the changes of one
    batch share it, and nothing else does. `reverts` is the record that this change took back, and `changeRequestStatus`
    says of a `queued` record what became of the request.
    """

    id: Id
    at: Moment
    completedAt: Moment | None
    surface: Annotated[str, documented_as(Surface)]
    operation: str
    owner: str
    keyName: str | None
    credentialId: str
    clientAddress: str | None
    requestId: str
    directory: str | None
    target: RecordTargetJson | None
    changes: list[ChangeJson]
    outcome: Annotated[str, documented_as(Outcome)]
    code: str | None
    changeRequestId: Id | None
    approvedBy: str | None
    runId: Id | None
    batchIndex: int | None
    reason: str | None
    server: str | None
    reversible: Annotated[str, documented_as(Reversible)]
    callId: NotRequired[Id]
    raisesAccess: NotRequired[list[str]]
    reverts: NotRequired[Id]
    changeRequestStatus: NotRequired[str]


class KnownRecordJson(RecordJson):
    """`revertedBy` is the record of the change that took this one back."""

    revertedBy: NotRequired[Id]


class FoundRecordJson(KnownRecordJson):
    """`together` is there where runs and batches are folded, and the record stands for several."""

    together: NotRequired[FoldedJson]


class OneRecordJson(KnownRecordJson):
    """`doubt` says why the record is not to be trusted."""

    doubt: NotRequired[str]


class OwnChangeJson(TypedDict):
    """A change that the caller has asked for, and how it stands: without its values."""

    id: Id
    at: Moment
    completedAt: Moment | None
    operation: str
    directory: str | None
    target: RecordTargetJson | None
    outcome: Annotated[str, documented_as(Outcome)]
    code: str | None
    reversible: Annotated[str, documented_as(Reversible)]


def own_change_as_json(record: OperationRecord) -> OwnChangeJson:
    known: dict[str, Any] = {**record_as_json(record)}
    return cast(OwnChangeJson, {name: known[name] for name in OwnChangeJson.__annotations__})


def record_as_json(record: OperationRecord) -> RecordJson:
    answer: RecordJson = {
        "id": str(record.id),
        "at": render_timestamp(record.at) or "",
        "completedAt": render_timestamp(record.completed_at),
        "surface": record.surface,
        "operation": record.operation,
        "owner": record.owner,
        "keyName": record.key_name,
        "credentialId": record.credential_id,
        "clientAddress": record.client_address,
        "requestId": record.request_id,
        "directory": record.directory,
        "target": _target_as_json(record),
        "changes": record.changes,
        "outcome": record.outcome,
        "code": record.code,
        "changeRequestId": str(record.change_request_id) if record.change_request_id else None,
        "approvedBy": record.approved_by,
        "runId": str(record.run_id) if record.run_id else None,
        "batchIndex": record.batch_index,
        "reason": record.reason,
        "server": record.server,
        "reversible": record.reversible if record.outcome == Outcome.SUCCEEDED else Reversible.NONE.value,
    }
    if record.call_id is not None:
        answer["callId"] = str(record.call_id)
    if record.raised_access:
        answer["raisesAccess"] = record.raised_access
    if (reverted := reverted_by(record.reason)) is not None:
        answer["reverts"] = str(reverted)
    return answer


def _target_as_json(record: OperationRecord) -> RecordTargetJson | None:
    if record.target_id is None and record.target_kind is None and record.target_dn is None:
        return None
    return {
        "id": str(record.target_id) if record.target_id else None,
        "kind": record.target_kind,
        "distinguishedName": record.target_dn,
    }
