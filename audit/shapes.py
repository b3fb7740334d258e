"""The API's shapes of log records (docs/api.md#log-records), statistics, and the state of the chain."""

from typing import Annotated, Any, cast

from typing_extensions import NotRequired, TypedDict

from audit.chain.checkpoint import Head
from audit.models import LogVerification, OperationRecord, Outcome, Reversible, reverted_by
from audit.redact import ChangeJson
from core.call import Surface
from core.shapes import Id, Moment, as_record, documented_as


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
    batch share it, and nothing else does. `reads` is there if the record stands for several reads of a key, from `at`
    to `completedAt`. `reverts` is the record that this change took back, and `changeRequestStatus` says of a `queued`
    record what became of the request.
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
    reads: NotRequired[int]
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


class OwnRecordJson(OwnChangeJson):
    """A change that this credential has asked for, with its values. `revertedBy` is the change that took it back."""

    changes: list[ChangeJson]
    reason: str | None
    changeRequestId: Id | None
    revertedBy: NotRequired[Id]


def own_change_as_json(record: OperationRecord) -> OwnChangeJson:
    known: dict[str, Any] = {**record_as_json(record)}
    return cast(OwnChangeJson, {name: known[name] for name in OwnChangeJson.__annotations__})


def record_as_json(record: OperationRecord) -> RecordJson:
    given: dict[str, Any] = {
        "target": _target_as_json(record),
        "reversible": record.reversible if record.outcome == Outcome.SUCCEEDED else Reversible.NONE.value,
    }
    if record.call_id is not None:
        given["callId"] = str(record.call_id)
    if record.raised_access:
        given["raisesAccess"] = record.raised_access
    if record.reads is not None:
        given["reads"] = record.reads
    if (reverted := reverted_by(record.reason)) is not None:
        given["reverts"] = str(reverted)
    return as_record(RecordJson, record, **given)


def _target_as_json(record: OperationRecord) -> RecordTargetJson | None:
    if record.target_id is None and record.target_kind is None and record.target_dn is None:
        return None
    return {
        "id": str(record.target_id) if record.target_id else None,
        "kind": record.target_kind,
        "distinguishedName": record.target_dn,
    }


class DayJson(TypedDict):
    """The operations begun on a day (UTC), by outcome."""

    day: str
    succeeded: int
    failed: int
    queued: int
    pending: int
    unknown: int


class UsageJson(TypedDict):
    """`operations` are all, `failed` those of them that did, `forbidden` those of these that were not permitted."""

    keyName: str | None
    operations: int
    failed: int
    forbidden: int


class LogStatisticsJson(TypedDict):
    since: Moment
    countedFrom: Moment
    days: list[DayJson]
    keys: list[UsageJson]
    otherKeys: UsageJson
    persons: UsageJson


class VerificationJson(TypedDict):
    """`finding` is the first thing that was wrong, null when nothing was; then all `seals` and `records` were read.

    They are those from `firstSeal` on: 1 where the whole log was verified, else what was new since the verification
    before (`verifiedRanges`).
    """

    at: Moment
    seals: int
    records: int
    finding: str | None
    firstSeal: int


class VerifiedRangeJson(TypedDict):
    """The seals from `firstSeal` to `lastSeal` were verified `at` a time, with all records that they name.

    Since `wholeSince` every seal up to `lastSeal` was verified. Later changes of their records are not noticed until
    the whole log is verified again.
    """

    firstSeal: int
    lastSeal: int
    at: Moment
    wholeSince: Moment


class VerificationProgressJson(TypedDict):
    """A verification that began with `firstSeal` has come to `seal` of those up to `lastSeal`."""

    firstSeal: int
    seal: int
    lastSeal: int


class ChainJson(TypedDict):
    """`unsealed` records wait for their seal; `refused` ones never get one, since the gateway did not make them.

    `missing` says which sealed records are gone, according to the checkpoint outside the database. `verifying` says
    whether the log is verified now, `progress` how far that is, once it has begun. `verifiedRanges` are in order.
    """

    head: Head | None
    unsealed: int
    oldestUnsealedAt: Moment | None
    refused: int
    missing: str | None
    lastVerification: VerificationJson | None
    verifying: bool
    progress: VerificationProgressJson | None
    verifiedRanges: list[VerifiedRangeJson]


class VerificationBegunJson(TypedDict):
    """`began` is false where a verification is under way already."""

    began: bool


def verification_as_json(verification: LogVerification | None) -> VerificationJson | None:
    if verification is None:
        return None
    return as_record(VerificationJson, verification, firstSeal=verification.first_seal or 1)
