"""Rules for groups that are given for a while only: every proposal passes `with_rules`, whatever has made it.

A rule governs the members of its group and of every group that is in it for good. Whoever is added without an end of
their own leaves again after the rule's default. An end is exempt, for it was promised.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from active_directory import Client, Entry, Equals, Modify
from approvals import ends
from core.call import Call, CredentialKind, Schedule
from core.database import shared_clock
from core.errors import GatewayError
from core.shapes import render_duration
from core.text.messages import Message, message
from directory.changes.targets import TARGET_ATTRIBUTES, target_of
from directory.groups import primary_group_sid
from directory.lookup.access import client_of
from directory.models import MembershipRule
from directory.shapes.proposal import UNTIL, AttributeChange, DependentChange, MembershipEnd, Proposal, Target

_TOLERANCE: Final = timedelta(seconds=5)
"""How much longer than the rule a membership may last whose end a caller has just computed."""


class TooLong(GatewayError):
    status, code, title = 400, "Schedules.TooLong", "The membership would last too long"


class ReasonRequired(GatewayError):
    status, code, title = 400, "Schedules.ReasonRequired", "This membership needs a reason"


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules for the members of a group, taken together: the shortest times count."""

    longest: timedelta | None
    default: timedelta | None
    reason_required: bool

    @property
    def without_end(self) -> timedelta | None:
        """How long a membership lasts for which nobody names an end. Raises TooLong if one has to be named."""
        if self.default is None and self.longest is not None:
            raise self.too_long(message("say when it ends"))
        return self.default

    def require_kept(self, lasts: timedelta | None) -> None:
        """Refuse a membership that lasts too long; None is one for good. Raises TooLong."""
        if self.longest is not None and (lasts is None or lasts > self.longest + _TOLERANCE):
            raise self.too_long(message("name an earlier end"))

    def too_long(self, advice: Message) -> TooLong:
        longest = render_duration(self.longest or self.default or timedelta())
        return TooLong(
            message("A membership of this group lasts at most {longest}: {advice}.", longest=longest, advice=advice),
            maxDuration=longest,
        )


def terms_for(call: Call, group: UUID | None) -> Terms | None:
    """The rules for new members of a group; None without any.

    Those of all connections, since the same domain may be connected twice.
    """
    rules = list(MembershipRule.objects.all())
    if group is None or not rules:
        return None
    groups = {*_groups_for_good(client_of(call), group)}
    applicable = [rule for rule in rules if rule.group_guid in groups]
    longest = [rule.max_duration for rule in applicable if rule.max_duration]
    defaults = [rule.default_duration for rule in applicable if rule.default_duration]
    if not applicable:
        return None
    return Terms(
        longest=min(longest, default=None),
        default=min((*defaults, *longest)) if defaults else None,
        reason_required=any(rule.reason_required for rule in applicable),
    )


def _groups_for_good(client: Client, group: UUID) -> Iterator[UUID]:
    """A group and those that it is in, directly or nested, without memberships that end by themselves."""
    found, level = {group}, {group}
    yield group
    while level:
        below = client.read_many(level, ("objectGUID", "memberOf")).values()
        names = {name for entry in below for name in entry.texts("memberOf")}
        above = [*client.find_any((Equals("distinguishedName", name) for name in names), ("objectGUID",))]
        pending = ends.find_pending(*(holder.guid for holder in above))
        ending = {(end.target_id, part) for end in pending for part in ends.parts_of_end(end)}
        level = {
            holder.guid
            for holder in above
            for entry in below
            if holder.dn in entry.texts("memberOf") and (holder.guid, ends.member_part("", entry.guid)) not in ending
        } - found
        found |= level
        yield from level


def with_rules(call: Call, proposal: Proposal) -> Proposal:
    """A proposal with the ends that membership rules give it. Raises TooLong and ReasonRequired.

    What a restore brings back has the default, or else the longest time, whatever it had before.
    """
    if call.credential.kind is CredentialKind.GATEWAY:
        return proposal
    is_restore = isinstance(proposal.write, Modify) and proposal.write.deleted
    found: list[MembershipEnd] = []
    warnings: list[str] = []
    for group, members, identities in _joinings(call, proposal):
        terms = terms_for(call, group.id)
        if terms is None:
            continue
        if terms.reason_required and not call.reason:
            if not call.dry_run:
                raise ReasonRequired(message("Adding members to this group requires a reason."))
            warnings.append(message("Adding members to this group will require a reason."))
        lasts = terms.default or terms.longest if is_restore else _limited(terms, call.schedule or Schedule())
        if terms.longest and call.schedule and call.schedule.ends and _removes_members(proposal):
            raise terms.too_long(message("its end would give back those whom the change removes"))
        if lasts is not None:
            found.append(MembershipEnd(group, members, identities, lasts))
    if is_restore and found:
        groups = "; ".join(f"{each.group.distinguished_name} ({render_duration(each.lasts)})" for each in found)
        warnings.append(message("Memberships that come back with an end: {groups}.", groups=groups))
    changes = proposal.changes
    if found and not is_restore:
        changes = (*changes, AttributeChange(UNTIL, (), (render_duration(found[0].lasts),)))
    return replace(proposal, changes=changes, membership_ends=tuple(found), warnings=(*proposal.warnings, *warnings))


def _removes_members(proposal: Proposal) -> bool:
    return any(change.before for change in proposal.changes if change.attribute.lower() == "member")


def with_default_end(call: Call, group: UUID | None) -> Schedule:
    """The schedule of a call that asks for members of a group who have an end already. Raises TooLong."""
    schedule, terms = call.schedule or Schedule(), terms_for(call, group)
    lasts = None if terms is None else _limited(terms, schedule)
    return schedule if lasts is None else replace(schedule, revert_after=lasts)


def require_end_kept(call: Call, group: UUID | None, until: datetime | None) -> None:
    """Refuse to move the end of a membership beyond what its rules allow from now on. Raises TooLong."""
    terms = terms_for(call, group)
    if terms is not None:
        terms.require_kept(None if until is None else until - shared_clock.now())


def _limited(terms: Terms, schedule: Schedule) -> timedelta | None:
    """How long members stay for whom the caller names no end. Raises TooLong."""
    if not schedule.ends:
        return terms.without_end
    begins = max(shared_clock.now(), schedule.apply_at or shared_clock.now())
    terms.require_kept(schedule.end_of(begins) - begins)
    return None


def _joinings(call: Call, proposal: Proposal) -> Iterator[tuple[Target, tuple[str, ...], Mapping[str, UUID]]]:
    """The existing groups that a proposal adds members to, or would when it ends; the members, and who they are."""
    client, schedule = client_of(call), call.schedule or Schedule()
    parts: list[Proposal | DependentChange] = [proposal, *proposal.dependent_changes]
    for part in parts:
        for change in part.changes:
            is_concerned = change.after or (schedule.ends and change.before)
            if change.attribute.lower() == "member" and is_concerned and part.target.id is not None:
                yield part.target, change.after, part.identities
    made = {each.target.id for each in proposal.dependent_changes}
    target, id = proposal.target, proposal.target.id
    for change in proposal.changes:
        attribute = change.attribute.lower()
        if attribute == "primarygroupid" and change.after and id is not None:
            _require_free_primary_group(call, client, id, change.after[0])
        elif attribute == "memberof" and id is not None:  # the recycle bin brings it back with the object
            joined = {proposal.identities[name] for name in change.after if name in proposal.identities} - made
            for group in client.read_many(joined, TARGET_ATTRIBUTES).values():
                yield target_of(group), (target.distinguished_name,), {target.distinguished_name: id}


def _require_free_primary_group(call: Call, client: Client, account: UUID, relative_id: str) -> None:
    """Refuse a primary group that is given for a while: `member` does not have it, and no end takes it back."""
    entry = client.find(account, ("objectSid",))
    sids = [] if entry is None else entry.values("objectSid")
    sid = primary_group_sid(Entry("", {"objectSid": sids, "primaryGroupID": [relative_id.encode()]}))
    for group in client.search_domain(Equals("objectSid", sid), ("objectGUID",)) if sid else ():
        terms = terms_for(call, group.guid)
        if terms is not None and (terms.longest or terms.default):
            raise terms.too_long(message("it cannot be a primary group"))
