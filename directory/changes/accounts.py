"""Enabling, disabling and unlocking accounts: the change itself, and the proposals for a single one."""

from collections.abc import Callable
from uuid import UUID

from active_directory import Entry, Modify, Schema, UserAccountControl, guid_reference
from core.call import Call
from directory.changes.update import TARGET_ATTRIBUTES, change_control, change_integer, target_of
from directory.lookup.access import client_of, find_object
from directory.outcomes.evidence import evidence_of
from directory.protection.rules import is_protected, require_may_write
from directory.queries.reading import read_changed
from directory.shapes.kinds import RESOURCES
from directory.shapes.modifications import Delta
from directory.shapes.proposal import Proposal
from directory.shapes.record import PROTECTION_COMPUTED


def switched(schema: Schema, entry: Entry, *, enabled: bool) -> Delta:
    """What enables or disables an account, of a single change and of a run; empty when it is so already.

    ACCOUNTDISABLE is cleared or set by compare-and-swap of userAccountControl, with which the entry was read.
    """
    delta = Delta()
    bit = UserAccountControl.ACCOUNTDISABLE.value
    change_control(delta, schema, entry, set_bits=0 if enabled else bit, clear_bits=bit)
    return delta


def write_of(entry: Entry, delta: Delta) -> Modify:
    """The modify that makes a change of an account, guarded by the values seen, wherever it has been moved by then."""
    return Modify(guid_reference(entry.guid), tuple(delta.modifications), guarded=True)


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
    client = client_of(call)
    schema = client.schema
    wanted = (*TARGET_ATTRIBUTES, "lockoutTime")
    entry = find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=wanted, computed=PROTECTION_COMPUTED)
    protected = require_may_write(call, protected=is_protected(client, entry))
    delta = change(schema, entry)
    write = write_of(entry, delta) if delta.changes else None
    return Proposal(
        target=target_of(entry),
        changes=tuple(delta.changes),
        write=write,
        answer=lambda: read_changed(call, entry.guid),
        protected=protected,
        evidence=evidence_of(write, entry=entry, schema=schema) if write else {},
    )
