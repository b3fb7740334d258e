"""Ends of changes that were made for a while, and beginnings of changes for later (docs/temporary-access.md).

An end is a change request with `ends`: the log record of the change that it takes back. It is stored in the transaction
that records that change's intent, before anything is sent to the directory, and its `changes` are all that taking it
back needs: it outlives the key, its owner, the request and the record. `gateway.pipeline.schedules` makes it.

Its `changes` are also what it still ends: whoever changes one of these values for good, or moves the end of one member
of several, takes it out of them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from active_directory import fold_case
from approvals.errors import Changed
from approvals.messages import message_about
from approvals.models import ChangeRequest, Status
from approvals.shapes import change_request_as_json
from approvals.states import move, publish
from audit.identifiers import new_identifier
from audit.models import OperationRecord, Outcome
from audit.redact import HeldChangeJson
from audit.webhooks import events as webhooks
from core.call import Call, Schedule
from core.database import shared_clock
from core.database.existence import has_rows
from core.errors import Conflict, GatewayError
from core.secrets.encryption import UndecryptableSecret
from core.text.messages import Message, message, wording_of
from directory.shapes.proposal import UNTIL, AttributeChange

OPEN: Final = (Status.SCHEDULED, Status.OVERDUE)
"""The states of an end that is still to come."""
FIRST_LOOK: Final = timedelta(seconds=10)
"""How long after its intent it is looked up whether the change was made. A failed one needs no end."""
LEASE: Final = timedelta(seconds=10)
"""How long after a worker has taken up an end another one looks whether it was lost.

A slow one does no harm: the log takes one open record for a change request, and decides how the end has come.
"""
LATE: Final = timedelta(minutes=5)
"""How long after its time an end counts as overdue even if the directory is only away."""
_HASTEN_AFTER: Final = timedelta(seconds=10)
"""How long after an attempt the next one comes at the earliest, though the directory answers again."""
_PAUSES: Final = (timedelta(minutes=1), timedelta(hours=1))
"""The first and the longest pause between two attempts."""


class BadTime(GatewayError):
    status, code, title = 400, "Schedules.BadTime", "The schedule is not valid"


class NoEnd(GatewayError):
    status, code, title = 409, "Schedules.NoEnd", "This is not the pending end of a temporary change"


class EndsNow(Conflict):
    def __init__(self) -> None:
        super().__init__(message("It is ending right now, or its end was just moved."))


class EndsAlready(GatewayError):
    status, code, title = 409, "Schedules.EndsAlready", "This already has a scheduled end"


def schedule_columns(call: Call, *, decision_needed: bool) -> dict[str, Any]:
    """The columns of a change for later or for a while. Undecided, it expires some hours after its time."""
    schedule = call.schedule
    if schedule is None:
        return {}
    after = schedule.revert_after
    columns: dict[str, Any] = {
        "due_at": schedule.apply_at,
        "revert_at": schedule.revert_at,
        "revert_after": None if after is None else int(after.total_seconds()),
    }
    if schedule.apply_at is not None:
        grace = timedelta(hours=settings.CONFIGURATION.Schedules.GraceHours)
        columns["expires_at"] = schedule.apply_at + grace
        if not decision_needed:
            columns |= {"status": Status.SCHEDULED, "retry_at": schedule.apply_at, "to_announce": False}
    return columns


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEnd:
    """What it takes to store the end of a change about to be made: the inverse `operation`, the risk of both, values.

    `changes` are those of the change itself, and `requires` the permissions that they needed besides its operation's.
    """

    schedule: Schedule
    operation: str
    made_by: str
    risk: str
    changes: Sequence[HeldChangeJson]
    target: tuple[UUID | None, str, str, str | None]
    requires: frozenset[str] = frozenset()


def schedule(call: Call, planned: PlannedEnd, record: OperationRecord) -> ChangeRequest:
    """Store the end of a change whose intent is being recorded, from which moment it counts.

    Joins the caller's transaction.
    """
    assert call.directory is not None
    due_at = planned.schedule.end_of(record.at)
    identifier, now = new_identifier()
    why = [message("It ends a temporary change.")]
    target_id, kind, name, account = planned.target
    end = ChangeRequest(
        id=identifier,
        status=Status.SCHEDULED,
        operation=planned.operation,
        risk=planned.risk,
        risk_reasons=why,
        plain_reasons=why,
        wording=wording_of(why),
        target_id=target_id,
        target_kind=kind,
        target_dn=name,
        target_account=account,
        requester_id=call.person.id,
        requester=call.person.username,
        key_id=call.credential.unique_id,
        key_name=call.credential.name,
        client_address=call.client_address,
        request_id=call.request_id,
        call_id=call.call_id,
        reason=call.reason,
        directory_id=call.directory.id,
        directory=call.directory.name,
        changes=[_inverted(change) for change in planned.changes],
        input=json.dumps({"operation": planned.made_by, "requires": sorted(planned.requires)}),
        created_at=now,
        expires_at=due_at,
        due_at=due_at,
        ends=record.id,
        retry_at=min(due_at, now + FIRST_LOOK),
        to_announce=False,
    )
    end.digest = end.make_digest()
    end.save(force_insert=True)
    publish(end)
    return end


def _inverted(change: HeldChangeJson) -> HeldChangeJson:
    return {**change, "before": change["after"], "after": change["before"]}


def find_end_of(record_id: UUID) -> UUID | None:
    """The first end of a recorded change."""
    return ChangeRequest.objects.filter(ends=record_id).order_by("id").values_list("id", flat=True).first()


_PENDING: Final = (
    "SELECT 1 FROM approvals_changerequest"
    " WHERE target_id IN ({ids}) AND retry_at IS NOT NULL AND ends IS NOT NULL LIMIT 1"
)


def find_pending(*targets: UUID | None) -> list[ChangeRequest]:
    """The ends of changes of objects that are to come or come now, in order; without those of failed changes."""
    wanted = [target for target in targets if target is not None]
    if not wanted:
        return []
    if not has_rows(_PENDING, wanted):
        return []
    pending = ChangeRequest.objects.filter(target_id__in=wanted, retry_at__isnull=False, ends__isnull=False)
    found = list(pending.defer("input", "secret").order_by("due_at", "id"))
    unconfirmed = [end.ends for end in found if end.made_at is None and end.ends is not None]
    failed = OperationRecord.objects.filter(id__in=unconfirmed, outcome=Outcome.FAILED) if unconfirmed else ()
    return [end for end in found if end.ends not in {record.id for record in failed}]


def parts_of(changes: Iterable[AttributeChange], identities: Mapping[str, UUID]) -> frozenset[str]:
    """The values that changes concern, each as text: a member, an option of userAccountControl, or else an attribute.

    `identities` are the objectGUIDs of members by name. Two changes that share a part concern the same value.
    """
    found: set[str] = set()
    for change in changes:
        attribute = change.attribute.lower()
        if attribute == "member":
            found.update(member_part(name, identities.get(name)) for name in (*change.before, *change.after))
        elif attribute == "useraccountcontrol" and change.before and change.after:
            bits = int(change.before[0]) ^ int(change.after[0])
            found.update(f"{attribute}:{1 << bit}" for bit in range(bits.bit_length()) if bits >> bit & 1)
        elif attribute != UNTIL:
            found.add(attribute)
    return frozenset(found)


def member_part(name: str, guid: UUID | None) -> str:
    return f"member:{fold_case(name) if guid is None else guid}"


def removes_members(end: ChangeRequest) -> bool:
    """Whether an end takes members out of a group."""
    return any(item["attribute"].lower() == "member" and item["before"] for item in end.changes)


def parts_of_end(end: ChangeRequest) -> frozenset[str]:
    """The values that an end still concerns."""
    return parts_of(map(AttributeChange.from_json, end.changes), identities_in(end.changes))


def identities_in(changes: Iterable[Mapping[str, Any]]) -> dict[str, UUID]:
    """The objectGUIDs of the objects that kept changes refer to, by name."""
    return {each["name"]: UUID(each["id"]) for item in changes for each in item.get("references", ())}


def restricted(changes: Iterable[Mapping[str, Any]], parts: frozenset[str]) -> list[dict[str, Any]]:
    """The kept changes of the values in `parts` alone. What is no list of members or options stays whole."""
    found = []
    for item in changes:
        if item["attribute"].lower() != "member":
            if its_parts := parts_of([AttributeChange.from_json(item)], {}) & parts:
                found.append({**item, **_options_in(item, its_parts)})
            continue
        known = identities_in([item])
        names = {name for name in (*item["before"], *item["after"]) if member_part(name, known.get(name)) in parts}
        if names:
            sides = {side: [name for name in item[side] if name in names] for side in ("before", "after")}
            references = [each for each in item.get("references", ()) if each["name"] in names]
            found.append({**item, **sides, "references": references})
    return found


def _options_in(item: Mapping[str, Any], parts: Iterable[str]) -> dict[str, list[str]]:
    """The value after a change of an account's options that changes no others than those in `parts`."""
    bits = sum(int(part.partition(":")[2] or 0) for part in parts)
    return {"after": [str(int(item["before"][0]) ^ bits)]} if bits else {}


@dataclass(frozen=True, slots=True)
class EndMove:
    """Another time for some of the values that an end concerns; None if they are not to end any more."""

    end: ChangeRequest
    parts: frozenset[str]
    due_at: datetime | None


def move_ends(moves: Iterable[EndMove]) -> None:
    """Give ends, or some of their values, another time.

    Raises EndsNow if one of them has come or moved meanwhile, and Changed if the row was altered.
    """
    with transaction.atomic():
        for each in moves:
            _move_end(each)


def _move_end(wanted: EndMove) -> None:
    end, all_parts = copy(wanted.end), parts_of_end(wanted.end)
    if not is_intact(end):
        raise Changed
    known = {"id": end.id, "status": end.status, "attempt": end.attempt, "digest": end.digest}
    moved = all_parts & wanted.parts
    if moved != all_parts and wanted.due_at is not None:
        part = copy(end)
        part.secret = ""  # deferred, and an end has none
        part.changes = restricted(end.changes, moved)
        part.id, _ = new_identifier()
        _set_time(part, wanted.due_at)
        part.save(force_insert=True)
        publish(part)
    if moved != all_parts:
        end.changes = restricted(end.changes, all_parts - moved)
        end.digest = end.make_digest()
        done = ChangeRequest.objects.filter(**known).update(changes=end.changes, digest=end.digest) == 1
    elif wanted.due_at is None:
        done = move(end.id, Status(end.status), Status.SUPERSEDED, if_attempt=end.attempt)
    else:
        _set_time(end, wanted.due_at)
        fields = {name: getattr(end, name) for name in ("status", "digest", *_TIMES)}
        done = ChangeRequest.objects.filter(**known).update(**fields) == 1
        publish(end)
    if not done:
        raise EndsNow


_TIMES: Final = ("due_at", "expires_at", "retry_at", "tries", "told_ahead", "expiry_announced", "problem")


def _set_time(end: ChangeRequest, due_at: datetime) -> None:
    end.status, end.due_at, end.expires_at = Status.SCHEDULED, due_at, due_at
    end.retry_at = due_at if end.made_at else min(due_at, shared_clock.now() + FIRST_LOOK)
    end.tries, end.told_ahead, end.expiry_announced, end.problem = 0, None, False, None
    end.digest = end.make_digest()


def is_intact(end: ChangeRequest) -> bool:
    """Whether an end is as it was stored, and can be read."""
    try:
        return end.has_intact_input()
    except (UndecryptableSecret, ValueError):
        return False


def describe_end(end: ChangeRequest) -> Message:
    """An end that is to come, in a sentence for warnings and refusals."""
    assert end.due_at is not None
    return message(
        "It ends at {time} (change request {id}).", time=end.due_at.isoformat(timespec="seconds"), id=str(end.id)
    )


# What a worker does with scheduled requests.


def find_due(*, limit: int) -> list[ChangeRequest]:
    """The scheduled requests that a worker is to look at now, in the order of their times."""
    waiting = ChangeRequest.objects.filter(retry_at__lte=shared_clock.now())
    return list(waiting.defer("input", "secret").order_by("due_at", "id")[:limit])  # one that cannot be read stops none


def begin(request: ChangeRequest) -> bool:
    """Let a change whose time has come be applied, as if it had been approved now."""
    return move(request.id, Status.SCHEDULED, Status.APPROVED, retry_at=None)


def confirm_made(end: ChangeRequest, record: OperationRecord | None) -> bool:
    """Note that the change that an end takes back was made, with the object that it has made."""
    unconfirmed = ChangeRequest.objects.filter(id=end.id, made_at=None, attempt=end.attempt, digest=end.digest)
    end.made_at, end.retry_at = shared_clock.now(), end.due_at
    if end.target_id is None and record is not None and is_intact(end):
        end.target_id, end.target_dn = record.target_id, record.target_dn or end.target_dn
        end.digest = end.make_digest()
    names = ("made_at", "retry_at", "target_id", "target_dn", "digest")
    return unconfirmed.update(**{name: getattr(end, name) for name in names}) == 1


def look_again(end: ChangeRequest, after: timedelta) -> None:
    """Let a worker look at a request again later, with nothing else changed."""
    unchanged = ChangeRequest.objects.filter(id=end.id, status=end.status, attempt=end.attempt)
    unchanged.update(retry_at=shared_clock.now() + after)


def claim(end: ChangeRequest) -> bool:
    """Take an end that is due for this worker alone, also from a worker that was lost."""
    lease = {"attempt": F("attempt") + 1, "retry_at": shared_clock.now() + LEASE}
    if end.status != Status.APPLYING:
        claimed = move(end.id, Status(end.status), Status.APPLYING, if_attempt=end.attempt, **lease)
    else:
        mine = ChangeRequest.objects.filter(id=end.id, status=Status.APPLYING, attempt=end.attempt)
        claimed = mine.filter(retry_at=end.retry_at).update(**lease) == 1
    if claimed:
        end.attempt, end.status = end.attempt + 1, Status.APPLYING
    return claimed


def finish(end: ChangeRequest, status: Status, *, problem: dict[str, Any] | None = None) -> None:
    """End a claimed end, or put it back for another attempt after a pause that doubles each time."""
    fields: dict[str, Any] = {"problem": problem}
    if status in OPEN:
        first, longest = _PAUSES
        pause = longest if problem is not None else min(first * 2 ** min(end.tries, 6), longest)
        now = shared_clock.now()
        fields |= {"retry_at": now + pause, "tries": F("tries") + 1, "lease_until": now + _HASTEN_AFTER}
    if status is Status.OVERDUE:  # people hear of it once, not every hour
        fields |= {"to_announce": not end.expiry_announced, "expiry_announced": True}
    move(end.id, Status.APPLYING, status, if_attempt=end.attempt, **fields)


def hasten(directory_id: UUID) -> None:
    """Look at once at what waits for a directory that was away and answers again."""
    now = shared_clock.now()
    _waiting_for_directories().filter(directory_id=directory_id).update(retry_at=now)


def find_directories_away() -> list[UUID]:
    """The directories that were away when something should have ended there."""
    found = _waiting_for_directories().order_by().values_list("directory_id", flat=True).distinct()
    return [each for each in found if each is not None]


def _waiting_for_directories() -> QuerySet[ChangeRequest]:
    now = shared_clock.now()
    soon = ChangeRequest.objects.filter(retry_at__gt=now, retry_at__lte=now + _PAUSES[1])  # by the index
    waiting = soon.filter(due_at__lte=now, tries__gt=0, problem__isnull=True, lease_until__lte=now)
    return waiting.filter(ends__isnull=False).exclude(status=Status.APPLYING)


def cancel(end: ChangeRequest) -> None:
    """Cancel the end of a change that was not made."""
    move(end.id, Status(end.status), Status.CANCELLED, if_attempt=end.attempt)


def tell_ahead() -> None:
    """Queue the events of what ends within a day, and within an hour."""
    now = shared_clock.now()
    for hours in (24, 1):
        lead = timedelta(hours=hours)
        soon = ChangeRequest.objects.filter(retry_at__gt=now, retry_at__lte=now + lead, due_at__gt=now)
        soon = soon.filter(ends__isnull=False, created_at__lte=F("due_at") - lead)
        for end in soon.exclude(told_ahead__lte=hours).exclude(made_at=None).defer("input", "secret")[:1000]:
            with transaction.atomic():
                told = ChangeRequest.objects.filter(id=end.id).exclude(told_ahead__lte=hours).update(told_ahead=hours)
                if told:
                    webhooks.enqueue_end_ahead(partial(change_request_as_json, end), partial(message_about, end))
