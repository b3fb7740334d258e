"""Evidence: records of the operations log in a document that verifies without the gateway (`audit.verify_evidence`)."""

from typing import Annotated, cast
from urllib.parse import urlencode

from django.conf import settings
from django.utils import timezone
from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from audit.chain import checkpoint, verification
from audit.chain.checkpoint import Head
from audit.models import OperationRecord
from audit.shapes import FoundRecordJson, VerificationJson, verification_as_json
from audit.verify_evidence import EVIDENCE_FORMAT, seal_evidence
from core.call import Call
from core.operation import rest_operation
from core.shapes import Moment, render_timestamp
from operations.log.operations import SearchOperations, search_operations


class EvidenceRecordJson(FoundRecordJson):
    """`doubt` says why the record is not to be trusted."""

    doubt: NotRequired[str]


class EvidenceJson(TypedDict):
    """Records of the log, the newest first. `isComplete` is false if there are more that match.

    `about` are the filters, as in a URL. `codes` has a MAC under the log key of each member and of each record's
    members, by place, and `mac` is the MAC of all codes.
    """

    format: str
    madeAt: Moment
    madeBy: str
    about: str
    isComplete: bool
    seal: Head | None
    verification: VerificationJson | None
    records: list[EvidenceRecordJson]
    codes: Annotated[dict[str, str], Field(examples=[{"madeBy": "0f343b0931126a20f133d67c2b018a3b"}])]
    mac: str


@rest_operation(
    "evidence.read",
    "GET operations/evidence",
    "Read evidence from the operations log",
    permission="audit.read_log",
)
def read_evidence(call: Call, *, query: SearchOperations) -> EvidenceJson:
    """Read records of the operations log as evidence, which verifies without the gateway.

    It has the records of one page, with the same filters as a search. Each is checked: one that was tampered with says
    so in `doubt`. With the log keys, `verify_evidence.py` of the gateway names each member that was changed since.
    """
    found = search_operations(call, query=query)
    rows = OperationRecord.objects.in_bulk([item["id"] for item in found["items"]])
    doubts = verification.reasons_for_doubt(rows.values())
    records = [
        cast(EvidenceRecordJson, {**item, "doubt": doubts[item["id"]]} if item["id"] in doubts else item)
        for item in found["items"]
    ]
    about = query.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"page_size", "cursor"})
    evidence = {
        "format": EVIDENCE_FORMAT,
        "madeAt": render_timestamp(timezone.now()) or "",
        "madeBy": call.person.username,
        "about": urlencode(about),
        "isComplete": query.cursor is None and found["nextCursor"] is None,
        "seal": checkpoint.head(),
        "verification": verification_as_json(verification.last_verification()),
        "records": records,
    }
    return cast(EvidenceJson, {**evidence, **seal_evidence(evidence, settings.LOG_KEYS[0])})
