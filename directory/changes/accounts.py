"""Enabling, disabling and unlocking accounts: the change itself, and the proposals for a single one."""

from collections.abc import Callable
from uuid import UUID

from active_directory import Entry, Schema, UserAccountControl
from core.call import Call
from directory.changes.targets import find_target, guarded_modify, target_of
from directory.changes.update import change_control, change_integer
from directory.lookup.access import client_of
from directory.outcomes.evidence import evidence_of
from directory.queries.reading import read_changed
from directory.shapes.modifications import Delta
from directory.shapes.proposal import Proposal


def switched(schema: Schema, entry: Entry, *, enabled: bool) -> Delta:
    """What enables or disables an account, of a single change and of a run; empty when it is so already.

    ACCOUNTDISABLE is cleared or set by compare-and-swap of userAccountControl, with which the entry was read.
    """
    delta = Delta()
    change_control(delta, schema, entry, UserAccountControl.ACCOUNTDISABLE, is_set=not enabled)
    return delta


def propose_enabled(call: Call, *, resource: str, id: UUID, enabled: bool) -> Proposal:
    """Enable or disable an account; nothing to do gives a proposal without changes."""
    return _propose(call, resource, id, lambda schema, entry: switched(schema, entry, enabled=enabled))


def propose_unlocked(call: Call, *, resource: str, id: UUID) -> Proposal:
    """Set lockoutTime to 0, which also clears the count of bad passwords ([MS-SAMR] 3.1.1.8.6)."""
    return _propose(call, resource, id, _unlocked)


def _unlocked(schema: Schema, entry: Entry) -> Delta:
    delta = Delta()
    if entry.integer("lockoutTime"):
        change_integer(delta, schema, entry, "lockoutTime", 0)
    return delta


def _propose(call: Call, resource: str, id: UUID, change: Callable[[Schema, Entry], Delta]) -> Proposal:
    schema = client_of(call).schema
    entry, protected = find_target(call, resource, id, "lockoutTime")
    delta = change(schema, entry)
    write = guarded_modify(entry, delta.modifications)
    return Proposal(
        target=target_of(entry),
        changes=tuple(delta.changes),
        write=write,
        answer=lambda: read_changed(call, entry.guid),
        protected=protected,
        evidence=evidence_of(write, entry=entry, schema=schema) if write else {},
    )
