"""Memberships that the directory itself ends, too, in forests with *Privileged Access Management*.

The gateway ends them at their time. What the directory does five minutes later is a backstop, should the gateway be
away, and no ticket of a member outlives it.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final
from uuid import UUID

import structlog

from active_directory import Modification, Modify, Write, has_expiring_links
from approvals import ends
from approvals.ends import EndMove
from core.call import Call
from core.database import shared_clock
from core.operation import Operation
from core.text.messages import message
from directory import errors as directory_errors
from directory.changes.targets import find_target, propose_modify
from directory.lookup.access import client_of
from directory.outcomes.writer import Result
from directory.shapes.kinds import resource_of
from directory.shapes.modifications import Delta
from directory.shapes.proposal import Proposal

logger = structlog.get_logger(__name__)

_AFTER_THE_END: Final = timedelta(minutes=5)
_UNDECIDED = (directory_errors.OutcomeUnknown, directory_errors.Unavailable, directory_errors.VersionMismatch)


def with_time_to_live(
    call: Call, proposal: Proposal, moves: Collection[EndMove] = (), *, until: datetime | None
) -> Proposal:
    """A proposal after which the directory ends the memberships that it adds, or whose ends move; not with None.

    A member whose end moves is removed and added in one modify: adding it alone is refused with result code 68
    (attributeOrValueExists), as for any value that is there.
    """
    lent = _lent_members(moves)
    is_new = until is not None and _adds_members(proposal.write)
    if not (is_new or lent) or not has_expiring_links(client_of(call)):
        return proposal
    if lent:
        proposal = _with_renewed(call, proposal, lent)
    if until is None or not isinstance(proposal.write, Modify):
        return proposal
    seconds = ceil((until - shared_clock.now() + _AFTER_THE_END).total_seconds())
    return replace(proposal, write=replace(proposal.write, time_to_live=seconds))


def _lent_members(moves: Collection[EndMove]) -> set[UUID]:
    """The members that the moved ends would remove."""
    found: set[UUID] = set()
    for each in moves:
        for item in ends.restricted(each.end.changes, each.parts):
            known = ends.identities_in([item])
            if item["attribute"].lower() == "member":
                found.update(known[name] for name in item["before"] if name in known)
    return found


def _with_renewed(call: Call, proposal: Proposal, members: set[UUID]) -> Proposal:
    """A proposal that also removes these members and adds them again, without those that it changes anyway."""
    assert proposal.target.id is not None
    group, protected = find_target(call, resource_of(proposal.target.kind), proposal.target.id, "member")
    listed = frozenset(group.values("member"))
    changed = {name for each in proposal.changes for name in (*each.before, *each.after)}
    present = client_of(call).read_many(members, ("objectGUID",)).items()
    names = {entry.dn: guid for guid, entry in present if entry.dn.encode() in listed and entry.dn not in changed}
    if not names:
        return proposal
    values = tuple(map(str.encode, names))
    steps = [Modification("delete", "member", values), Modification("add", "member", values)]
    identities = {**proposal.identities, **names}
    if isinstance(proposal.write, Modify):
        write = replace(proposal.write, modifications=(*proposal.write.modifications, *steps))
        return replace(proposal, write=write, identities=identities)
    alone = propose_modify(call, group, Delta(steps), protected=protected, identities=names)
    return replace(proposal, write=alone.write, evidence=alone.evidence, identities=identities)


def _adds_members(write: Write | None) -> bool:
    return isinstance(write, Modify) and any(
        step.attribute.lower() == "member" and step.op == "add" for step in write.modifications
    )


def without_time_to_live(write: Write, result: Result) -> Write | None:
    """What to send after the directory has refused a time to live; None if that is not what it may have refused."""
    if result.refusal is None or not result.was_sent or isinstance(result.refusal, _UNDECIDED):
        return None
    if not isinstance(write, Modify) or write.time_to_live is None:
        return None
    logger.warning("the domain controller may have refused a time to live", code=result.refusal.code)
    return replace(write, time_to_live=None)


def with_tickets(body: Any, operation: Operation, sent: Write, *, was_refused: bool) -> Any:
    """The answer to a change for a while; that to a membership with what it says about the tickets of the members."""
    is_told = "directoryTtl" in getattr(operation.output, "__annotations__", {})
    if not is_told or not _adds_members(sent):
        return body
    assert isinstance(sent, Modify)
    if sent.time_to_live is not None:
        return {**body, "directoryTtl": sent.time_to_live}
    told = {**body, "ticketsMayOutlive": True}
    refused = message("The domain controller refuses a time to live: the gateway alone ends this.")
    return {**told, "warnings": [*body.get("warnings", ()), refused]} if was_refused else told
