"""Changes for later and for a while: which may be asked for, how their ends are judged, and what moves earlier ends.

A change with an end is judged with its end: the caller needs the permission of the inverse change too, and the greater
risk of both decides. A change for good of something that has an end, and one until later, moves that end; it is judged
like any other change even if the directory is as asked for already.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from django.conf import settings

from active_directory import Delete, Modify, fold_case
from approvals import ends
from approvals.ends import BadTime, EndMove, EndsAlready, PlannedEnd
from approvals.models import ChangeRequest, Status
from approvals.shapes import changes_to_keep
from audit.models import Reversible
from core.call import Call, CredentialKind, Schedule
from core.database import shared_clock
from core.errors import Forbidden
from core.operation import Effect, Operation, Risk, greatest_risk
from core.shapes import parse_duration, parse_timestamp, render_timestamp
from core.text.messages import clause, message
from directory.changes.references import describe_references
from directory.changes.revert import NotRevertible, inverse_of, reversibility
from directory.lookup.access import client_of
from directory.shapes.proposal import UNTIL, AttributeChange, MembershipEnd, Proposal
from gateway.pipeline import membership_rules
from gateway.pipeline.time_to_live import with_time_to_live

_OPENING_BACK: Final = ("useraccountcontrol", "accountexpires")
"""Attributes whose old value may let somebody in, whatever the risk of the new one."""
SCHEDULE: Final = {
    "apply_at": "When the change is to be made (RFC 3339); absent for now. The answer is 202.",
    "revert_at": "When it is to end by itself (RFC 3339).",
    "revert_after": "How long after it is made it ends by itself: an ISO 8601 duration from PT1M to P366D.",
}
"""What a caller may ask for, and its meaning."""
END_HEADER = "Gateway-Scheduled-End"
"""The header of an answer that names the change request which will end the change."""
SHORTEST: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(days=366)
"""The shortest and the longest while for which a change may be made."""
_LATE_BY: Final = timedelta(seconds=5)
"""How far in the past a time may be that a caller has just computed."""


def parse_schedule(given: Mapping[str, tuple[str, str]], *, in_body: bool = False) -> Schedule:
    """The schedule that a caller asks for: by member of `Schedule`, the name that the caller gave it, and its text.

    Raises BadTime naming the header, or the member of the body.
    """

    def refuse(member: str, why: str) -> BadTime:
        name = given[member][0]
        if in_body:
            return BadTime.naming(why, pointer=f"#/{name}", subject=name)
        return BadTime.naming(why, parameter=name, subject=name)

    times: dict[str, Any] = {}
    for member, (_, text) in given.items():
        try:
            times[member] = (parse_duration if member == "revert_after" else parse_timestamp)(text.strip())
        except ValueError as error:
            raise refuse(member, error.args[0]) from None
    if {"revert_at", "revert_after"} <= times.keys():
        raise refuse("revert_after", message("cannot be combined with a time at which the change ends"))
    return Schedule(**times)


def require_schedulable(operation: Operation, call: Call) -> None:
    """Refuse a schedule for anything but a change of the directory, and times that cannot be kept. Raises BadTime."""
    schedule = call.schedule
    if schedule is None:
        return
    if operation.effect is not Effect.CHANGE or not operation.needs_directory:
        raise BadTime(message("Only changes of the directory can be scheduled."))
    require_in_time(schedule.apply_at)
    require_in_time(schedule.revert_at)
    now = shared_clock.now()
    begins = max(now, schedule.apply_at or now)
    if schedule.revert_at is not None and schedule.revert_at <= begins:
        raise BadTime(message("The change would end before it begins."))
    if schedule.revert_after is not None and not SHORTEST <= schedule.revert_after <= LONGEST:
        raise BadTime(message("A temporary change lasts at least one minute and at most 366 days."))


def require_in_time(moment: datetime | None, *, pointer: str | None = None) -> None:
    """Refuse a time that is past or too far ahead; raises BadTime, naming the member of the body if there is one."""
    now, days = shared_clock.now(), settings.CONFIGURATION.Schedules.MaxDays
    if moment is None:
        return
    if moment < now - _LATE_BY:
        raise BadTime.naming(message("{time} is in the past.", time=moment.isoformat()), pointer=pointer)
    if moment > now + timedelta(days=days):
        why = message("{time} is more than {days} days ahead.", time=moment.isoformat(), days=days)
        raise BadTime.naming(why, pointer=pointer)


def begins_later(call: Call) -> bool:
    """Whether the change is to be made later than now."""
    apply_at = None if call.schedule is None else call.schedule.apply_at
    return apply_at is not None and apply_at > shared_clock.now()


def with_schedule(operation: Operation, call: Call, proposal: Proposal) -> Proposal:
    """A proposal with what its end, and the pending ends of the same values, add to it.

    Raises NotRevertible for a change that cannot end by itself, Forbidden where the caller may not make the inverse
    change, and EndsAlready where what the change would set for a while has an end.
    """
    if call.credential.kind is CredentialKind.GATEWAY:  # the end itself
        return proposal
    schedule = call.schedule or Schedule()
    if schedule.revert_at is not None and schedule.revert_at <= shared_clock.now():
        raise BadTime(message("Its end, {time}, has already passed.", time=schedule.revert_at.isoformat()))
    if schedule.ends and proposal.changes:
        proposal = _with_end(operation, call, proposal)
    return proposal if begins_later(call) else _with_moved_ends(operation, call, proposal, schedule)


def _with_end(operation: Operation, call: Call, proposal: Proposal) -> Proposal:
    made = proposal.operation or operation.name
    is_whole = reversibility(made, proposal.changes) is Reversible.FULL
    if made != operation.name or not is_whole or proposal.run is not None or proposal.dependent_changes:
        raise NotRevertible(message("This change cannot be fully undone, so it cannot end by itself."))
    inverse = inverse_of(operation, proposal.target.kind)
    if not inverse.permission & call.permissions:
        raise Forbidden(inverse.permission)
    opens_again = any(
        change.before and change.attribute.lower() in (*_OPENING_BACK, "member") for change in proposal.changes
    )
    risk = Risk.SECURITY if opens_again else inverse.risk
    own = greatest_risk(operation.risk, proposal.risk)
    if greatest_risk(own, risk) is own:
        return proposal
    return replace(
        proposal, risk=risk, risk_reason=message("when it ends, it will {ground}", ground=clause(inverse.summary))
    )


def plan_ends(operation: Operation, call: Call, proposal: Proposal, risk: Risk) -> list[PlannedEnd]:
    """What it takes to store the ends of a change about to be made, without those of its dependent changes."""
    dependent = {each.target.id for each in proposal.dependent_changes}
    by_rule = [plan_membership_end(call, each) for each in proposal.membership_ends if each.group.id not in dependent]
    end = _plan_own_end(operation, call, proposal, risk)
    return by_rule if end is None else [end, *by_rule]


def plan_membership_end(call: Call, end: MembershipEnd) -> PlannedEnd:
    changes = [AttributeChange("member", (), end.members)]
    group = end.group
    return PlannedEnd(
        schedule=Schedule(revert_after=end.lasts),
        operation="groups.change-members",
        made_by="groups.change-members",
        risk=Risk.SECURITY.value,
        changes=changes_to_keep(changes, describe_references(client_of(call), changes, end.identities)),
        target=(group.id, group.kind, group.distinguished_name, group.account_name),
    )


def _plan_own_end(operation: Operation, call: Call, proposal: Proposal, risk: Risk) -> PlannedEnd | None:
    if call.schedule is None or not call.schedule.ends:
        return None
    changes = [change for change in proposal.changes if change.attribute != UNTIL]
    if not changes:
        return None
    target = proposal.target
    if call.change_request_id is not None:  # what was approved, with its end
        risk = Risk(ChangeRequest.objects.values_list("risk", flat=True).get(id=call.change_request_id))
    return PlannedEnd(
        schedule=call.schedule,
        operation=inverse_of(operation, target.kind).name,
        made_by=operation.name,
        risk=risk.value,
        changes=changes_to_keep(changes, describe_references(client_of(call), changes, proposal.identities)),
        target=(target.id, target.kind, target.distinguished_name, target.account_name),
        requires=proposal.requires,
    )


def _with_moved_ends(operation: Operation, call: Call, proposal: Proposal, schedule: Schedule) -> Proposal:
    pending = _ends_concerned(call, proposal)
    confirmed = touched = frozenset[str]()
    if pending:  # most objects have none, and a change may add a thousand members
        confirmed = _confirmed_parts(call, proposal, pending)
        touched = _parts_touched(proposal, pending)
    moves: list[EndMove] = []
    shown: list[str] = []
    until: tuple[str, ...] = ()
    warnings: list[str] = []
    ends_at = _end_of(proposal, schedule, shared_clock.now())
    for end in pending:
        parts = ends.parts_of_end(end)
        if end.status == Status.APPLYING and parts & (touched | confirmed):
            raise ends.EndsNow
        if schedule.ends and parts & touched:
            raise EndsAlready(ends.describe_end(end))
        kept, due_at = parts & confirmed, None
        is_membership = kept and ends.removes_members(end)
        moved_to = membership_rules.with_default_end(call, proposal.target.id) if is_membership else schedule
        if moved_to.ends and kept:
            due_at = moved_to.end_of(shared_clock.now())
            if end.due_at is not None and due_at <= end.due_at:
                warnings.append(ends.describe_end(end))
                kept = frozenset()
        if kept:
            shown.append(render_timestamp(end.due_at) or "")
            until, ends_at = _shown_end(moved_to), due_at
        if moved := kept | (parts & touched):
            moves.append(EndMove(end, moved, due_at))
    if schedule.ends and proposal.confirmed and not warnings and not shown:
        warnings.append(message("What was already in place will not be reverted."))
    proposal = _with_warnings(operation, proposal, warnings)
    proposal = with_time_to_live(call, proposal, moves, until=ends_at)
    if not moves:
        return proposal
    if shown:
        risk = greatest_risk(proposal.risk, *(Risk(each.end.risk) for each in moves))
        reason = proposal.risk_reason if risk is proposal.risk else message("it moves the end of an earlier change")
        changes = [change for change in proposal.changes if change.attribute != UNTIL]
        changes.append(AttributeChange(UNTIL, tuple(shown), until))
        proposal = replace(proposal, changes=tuple(changes), risk=risk, risk_reason=reason)
    return replace(proposal, move_ends=partial(ends.move_ends, moves))


def _ends_concerned(call: Call, proposal: Proposal) -> list[ChangeRequest]:
    """The pending ends that a change may move.

    What is deleted may be restored as it was, and then ends all the same; but for what was made for a while.
    """
    if isinstance(proposal.write, Modify) and proposal.write.deleted:
        return []
    # The end of an earlier attempt of this very call is its own.
    pending = [end for end in ends.find_pending(proposal.target.id) if end.call_id not in call.interrupted]
    is_deletion = isinstance(proposal.write, Delete)
    return [end for end in pending if not is_deletion or end.operation.endswith(".delete")]


def _parts_touched(proposal: Proposal, pending: Iterable[ChangeRequest]) -> frozenset[str]:
    if isinstance(proposal.write, Delete):
        return frozenset().union(*map(ends.parts_of_end, pending))
    return ends.parts_of(proposal.changes, proposal.identities)


def _end_of(proposal: Proposal, schedule: Schedule, begins: datetime) -> datetime | None:
    """When a change ends: as it was asked for, else by membership rules."""
    if schedule.ends:
        return schedule.end_of(begins)
    return min((begins + each.lasts for each in proposal.membership_ends), default=None)


def _shown_end(schedule: Schedule) -> tuple[str, ...]:
    """The new end as it was asked for, so that what an approver sees does not change while it waits."""
    if schedule.revert_after is not None:
        return (f"PT{int(schedule.revert_after.total_seconds())}S",)
    return () if schedule.revert_at is None else (render_timestamp(schedule.revert_at) or "",)


def _confirmed_parts(call: Call, proposal: Proposal, pending: Iterable[ChangeRequest]) -> frozenset[str]:
    """What the caller asked for and is so already, among the values that ends concern."""
    found: set[str] = set()
    known = {part for end in pending for part in ends.parts_of_end(end)}
    for attribute, values in proposal.confirmed.items():
        if attribute == "member":
            guids = {guid for end in pending for guid in ends.identities_in(end.changes).values()}
            present = client_of(call).read_many(guids, ("objectGUID",))
            names = set(map(fold_case, values))
            found.update(ends.member_part("", guid) for guid, entry in present.items() if fold_case(entry.dn) in names)
        elif values:
            found.update(f"{attribute}:{value}" for value in values)
        else:
            found.update(part for part in known if part.partition(":")[0] == attribute)
    return frozenset(found & known)


def _with_warnings(operation: Operation, proposal: Proposal, warnings: list[str]) -> Proposal:
    """A proposal that warns, in a dry run and, where the operation's answer has them, in its answer."""
    if not warnings:
        return proposal
    answer = proposal.answer
    if "warnings" in getattr(operation.output, "__annotations__", {}):
        answer = lambda: {**proposal.answer(), "warnings": warnings}  # noqa: E731
    return replace(proposal, warnings=(*proposal.warnings, *warnings), answer=answer)


def headers_of_earlier_end(call: Call, proposal: Proposal) -> dict[str, str]:
    """The header that names the end which an interrupted attempt of this call has stored; none without one."""
    for end in ends.find_pending(proposal.target.id) if call.interrupted else ():
        if end.call_id in call.interrupted:
            return {END_HEADER: str(end.id)}
    return {}


def described(call: Call, proposal: Proposal) -> dict[str, str | None]:
    """The times of a change as a dry run shows them; only those that were asked for, and those of membership rules."""
    schedule = call.schedule or Schedule()
    begins = schedule.apply_at or shared_clock.now()
    times = {"applyAt": schedule.apply_at, "revertAt": _end_of(proposal, schedule, begins)}
    return {name: render_timestamp(moment) for name, moment in times.items() if moment is not None}
