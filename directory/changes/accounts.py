"""Proposals to enable, disable and unlock one account."""

from uuid import UUID

from directory.changes.update import TARGET_ATTRIBUTES, change_control, change_integer, target_of
from directory.ldap import Modify
from directory.ldap.dn import guid_reference
from directory.ldap.flags import UserAccountControl
from directory.lookup.access import client_of, find_object
from directory.outcomes.evidence import evidence_of
from directory.protection.rules import is_protected, require_may_write
from directory.queries.reading import read_changed
from directory.shapes.kinds import KINDS_OF_RESOURCE
from directory.shapes.modifications import Delta
from directory.shapes.proposal import Proposal
from gateway.core.call import Call


def propose_enabled(call: Call, *, resource: str, id: UUID, enabled: bool) -> Proposal:
    """Clear or set ACCOUNTDISABLE by compare-and-swap; nothing to do gives a proposal without changes."""
    bit = UserAccountControl.ACCOUNTDISABLE.value
    return _propose(call, resource, id, {"set_bits": 0 if enabled else bit, "clear_bits": bit})


def propose_unlocked(call: Call, *, resource: str, id: UUID) -> Proposal:
    """Set lockoutTime to 0, which also clears the count of bad passwords ([MS-SAMR] 3.1.1.8.6)."""
    return _propose(call, resource, id, None)


def _propose(call: Call, resource: str, id: UUID, bits: dict[str, int] | None) -> Proposal:
    client = client_of(call)
    schema = client.schema
    entry = find_object(call, id, kinds=KINDS_OF_RESOURCE[resource], attributes=(*TARGET_ATTRIBUTES, "lockoutTime"))
    protected = require_may_write(call, protected=is_protected(client, entry))
    delta = Delta()
    if bits is not None:
        change_control(delta, schema, entry, **bits)
    elif entry.integer("lockoutTime"):
        change_integer(delta, schema, entry, "lockoutTime", 0)
    write = Modify(guid_reference(entry.guid), tuple(delta.modifications), guarded=True) if delta.changes else None
    return Proposal(
        target=target_of(entry),
        changes=tuple(delta.changes),
        write=write,
        answer=lambda: read_changed(call, entry.guid),
        protected=protected,
        evidence=evidence_of(write, entry=entry, schema=schema) if write else {},
    )
