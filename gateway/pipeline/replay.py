"""Replays: the answer to a retry, under the same idempotency key, of a request whose first attempt was interrupted.

The attempt's process was killed, or it answered 5xx although it may have changed something. The operations log knows
what it did, by the identifier that the gateway itself gave the attempt (`Call.call_id`).
`gateway.surfaces.idempotency` knows which attempts belong to a key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from approvals.ends import find_end_of
from approvals.models import ChangeRequest
from approvals.queue import queued_answer
from audit.models import OPEN_OUTCOMES, OperationRecord, Outcome
from core.call import Call
from core.database import shared_clock
from core.operation import Operation
from core.shapes import parse_guid
from directory import errors as directory_errors
from directory.lookup.access import find_object
from directory.lookup.visibility import visibility_of
from directory.queries.reading import read_record
from directory.shapes.record import DirectoryObject
from gateway.pipeline.inputs import Answer
from gateway.pipeline.perform import held_answer
from gateway.pipeline.recording import require_preview_allowed
from gateway.pipeline.schedules import END_HEADER

SECRET_MEMBERS = ("generatedPassword", "value", "accessToken", "invitationLink")
"""Members of an answer that are shown once: a replay has null there."""

SETTLED_AFTER = timedelta(minutes=5)
"""An outcome that is still unknown by then may stay so; a retry then goes by what the directory holds."""


def is_unsettled(attempts: Sequence[UUID]) -> bool:
    """Whether the outcome of one of these attempts may still be determined."""
    recent = shared_clock.now() - SETTLED_AFTER
    return _records(attempts).filter(outcome__in=OPEN_OUTCOMES, at__gte=recent).exists()


def attempts_with_effects(attempts: Sequence[UUID]) -> set[UUID]:
    """Return the attempts that made a change, requested approval of one, or have no known outcome yet."""
    done = (Outcome.SUCCEEDED, Outcome.QUEUED, *OPEN_OUTCOMES)
    found = _records(attempts).filter(outcome__in=done).values_list("call_id", flat=True)
    return {attempt for attempt in found if attempt is not None}


def find_answer(call: Call, operation: Operation) -> Answer | None:
    """Return the answer that an interrupted attempt of this call could not give any more.

    None if there was no attempt, if it did nothing, or if the call can simply run again, since what is already done
    changes nothing then. Raises what reading the object raises.
    """
    if not call.interrupted:
        return None
    made = _records(call.interrupted).filter(
        operation=operation.name,
        batch_index=call.batch_index,
        surface=call.surface,
        run_id=None,
        outcome__in=(Outcome.SUCCEEDED, Outcome.QUEUED),
    )
    record = made.order_by("id").first()
    answer = None if record is None else _answer_of(record, call, operation)
    if record is None or answer is None or call.schedule is None or (end := find_end_of(record.id)) is None:
        return answer
    return answer._replace(headers={**answer.headers, END_HEADER: str(end)})


def refresh_answer(operation: Operation, call: Call, arguments: Mapping[str, str], body: Any) -> Any:
    """Return the body of an earlier answer, as its caller may see it now; raises Forbidden or ObjectNotFound.

    Every object that the request or its answer names is looked up again: one that has left the caller's scopes is
    refused, and a record is read anew. Objects that are gone reveal nothing.
    """
    if not operation.needs_directory:
        return body
    with directory_errors.translate_ldap_errors():
        for named in _objects_of(operation, arguments, body):
            try:
                find_object(call, named)
            except directory_errors.ObjectNotFound:
                continue
        return _as_seen_now(operation, call, body) if isinstance(body, dict) else body


def _as_seen_now(operation: Operation, call: Call, body: dict[str, Any]) -> Any:
    if body.get("dryRun"):
        require_preview_allowed(replace(call, dry_run=True))
        visibility = visibility_of(call)
        for shown in (body, *body.get("results", ())):
            if "changes" in shown:
                shown["changes"] = visibility.visible_changes(shown["changes"])
    elif operation.output is DirectoryObject and "kind" in body:
        return read_record(call, UUID(body["id"]))
    elif isinstance(made := body.get("object"), dict):  # the object after a revert
        body["object"] = read_record(call, UUID(made["id"]))
    return body


def _objects_of(operation: Operation, arguments: Mapping[str, str], body: Any) -> Iterator[UUID]:
    named = [arguments.get("id")] if operation.names_object else []
    if isinstance(body, dict):
        if operation.names_object:
            named.append(body.get("id"))
        named += [result.get("id") for result in body.get("results", ())]
        named.append((body.get("changeRequest") or {}).get("target", {}).get("id"))
    for text in dict.fromkeys(named):
        if (guid := parse_guid(text or "")) is not None:
            yield guid


def _answer_of(record: OperationRecord, call: Call, operation: Operation) -> Answer | None:
    if record.outcome == Outcome.QUEUED and record.change_request_id is not None:
        return held_answer(call, queued_answer(ChangeRequest.objects.get(id=record.change_request_id)))
    if operation.output is None:
        return Answer(operation.status)
    if operation.output is DirectoryObject and record.target_id is not None:
        return Answer(operation.status, read_record(call, record.target_id))
    members = getattr(operation.output, "__annotations__", {})
    if members and set(members) <= set(SECRET_MEMBERS):
        return Answer(operation.status, dict.fromkeys(members))
    return None


def _records(attempts: Sequence[UUID]) -> QuerySet[OperationRecord]:
    return OperationRecord.objects.filter(call_id__in=attempts)
