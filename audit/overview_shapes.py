"""How it is answered how much the operations log holds and how far it is sealed. Its records are in `shapes`."""

from typing_extensions import TypedDict

from audit.chain.head_export import Head
from audit.models import LogVerification
from core.shapes import Moment, render_timestamp


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
    days: list[DayJson]
    keys: list[UsageJson]
    otherKeys: UsageJson
    persons: UsageJson


class VerificationJson(TypedDict):
    """`finding` is the first thing that was wrong, null when nothing was; then all `seals` and `records` were read."""

    at: Moment
    seals: int
    records: int
    finding: str | None


class ChainJson(TypedDict):
    """`unsealed` records wait for their seal; `refused` ones never get one, since the gateway did not make them.

    `missing` says what is gone of what was sealed once, by the mark that is kept outside the database. `verifying` is
    whether a worker is at it now.
    """

    head: Head | None
    unsealed: int
    oldestUnsealedAt: Moment | None
    refused: int
    missing: str | None
    lastVerification: VerificationJson | None
    verifying: bool


class VerificationBegunJson(TypedDict):
    """`began` is false where a verification is under way already."""

    began: bool


def verification_as_json(verification: LogVerification | None) -> VerificationJson | None:
    if verification is None:
        return None
    return {
        "at": render_timestamp(verification.at) or "",
        "seals": verification.seals,
        "records": verification.records,
        "finding": verification.finding,
    }
