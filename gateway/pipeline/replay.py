"""What became of a request that was not answered to its end: the answer to its retry under the same idempotency key.

Its process was killed, or it was answered with 5xx although it may have changed something. The operations log knows;
which requests these are is `gateway.surfaces.idempotency`'s to say.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from approvals.models import ChangeRequest
from approvals.queue import queued_answer
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from directory.queries.reading import read_changed
from directory.shapes.record import DirectoryObject
from gateway.core import shared_clock
from gateway.core.call import Call
from gateway.core.operation import Operation

SECRET_MEMBERS = ("generatedPassword", "value", "accessToken")
"""Members of an answer that are shown once: a replay has null there."""

SETTLED_AFTER = timedelta(minutes=5)
"""What is not known by then may never be; a retry is then judged by what the directory holds."""


def is_unsettled(credential_id: str, request_ids: Sequence[str]) -> bool:
    """Whether it is still to be found out what these requests have done."""
    recent = shared_clock.now() - SETTLED_AFTER
    return _records(credential_id, request_ids).filter(outcome__in=OPEN_OUTCOMES, at__gte=recent).exists()


def those_that_did_something(credential_id: str, request_ids: Sequence[str]) -> set[str]:
    """Which of these requests have made a change, or asked for approval of one, or nobody knows yet."""
    done = (Outcome.SUCCEEDED, Outcome.QUEUED, *OPEN_OUTCOMES)
    return set(_records(credential_id, request_ids).filter(outcome__in=done).values_list("request_id", flat=True))


def find_answer(call: Call, operation: Operation) -> tuple[int, Any] | None:
    """Status and body of the answer that an interrupted attempt of this call did not come to give.

    None when there was none, when it did nothing, or when the call may as well be made again: what is done already is
    then no change. Raises what reading the object raises.
    """
    if not call.interrupted:
        return None
    made = _records(call.credential.id, call.interrupted).filter(
        operation=operation.name,
        batch_index=call.batch_index,
        surface=call.surface,
        run_id=None,
        outcome__in=(Outcome.SUCCEEDED, Outcome.QUEUED),
    )
    record = made.order_by("id").first()
    return None if record is None else _answer_of(record, call, operation)


def _answer_of(record: OperationRecord, call: Call, operation: Operation) -> tuple[int, Any] | None:
    if record.outcome == Outcome.QUEUED and record.change_request_id is not None:
        return 202, queued_answer(ChangeRequest.objects.get(id=record.change_request_id))
    if operation.output is None:
        return operation.status, None
    if operation.output is DirectoryObject and record.target_id is not None:
        return operation.status, read_changed(call, record.target_id)
    members = getattr(operation.output, "__annotations__", {})
    if members and set(members) <= set(SECRET_MEMBERS):
        return operation.status, dict.fromkeys(members)
    return None


def _records(credential_id: str, request_ids: Sequence[str]) -> QuerySet[OperationRecord]:
    return OperationRecord.objects.filter(credential_id=credential_id, request_id__in=request_ids)
