"""The object that a change is about: read with what every proposal needs of it, and judged as protected or not."""

from collections.abc import Collection
from uuid import UUID

from active_directory import Entry, Modification, Modify, guid_reference
from core.call import Call
from directory.lookup.access import client_of, find_object
from directory.lookup.prefetch import prefetch_of
from directory.outcomes.evidence import EVIDENCE_ATTRIBUTES
from directory.protection.rules import is_protected, require_may_write
from directory.shapes.kinds import RESOURCES, kind_of
from directory.shapes.proposal import Target
from directory.shapes.record import PROTECTION_ATTRIBUTES, PROTECTION_COMPUTED, version_of

TARGET_ATTRIBUTES = (
    *PROTECTION_ATTRIBUTES,
    *EVIDENCE_ATTRIBUTES,
    *("objectClass", "name", "sAMAccountName", "uSNChanged"),
)
"""What every proposal about an existing object reads of it."""


def find_target(call: Call, resource: str, id: UUID, *attributes: str) -> tuple[Entry, bool]:
    """The object of a path with TARGET_ATTRIBUTES and these, and whether it is protected.

    Raises ObjectNotFound; Forbidden outside the caller's scopes, and for what the caller may not write.
    """
    wanted = (*TARGET_ATTRIBUTES, *attributes)
    entry = find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=wanted, computed=PROTECTION_COMPUTED)
    return entry, require_may_write(call, protected=is_protected(client_of(call), entry, prefetch=prefetch_of(call)))


def target_of(entry: Entry) -> Target:
    return Target(
        id=entry.guid,
        kind=kind_of(entry.object_classes),
        distinguished_name=entry.dn,
        version=version_of(entry),
        account_name=entry.text("sAMAccountName"),
    )


def guarded_modify(entry: Entry, modifications: Collection[Modification]) -> Modify | None:
    """The modify of an entry, guarded by the values it was read with, wherever it has been moved by then.

    None when there is nothing to do.
    """
    return Modify(guid_reference(entry.guid), tuple(modifications), guarded=True) if modifications else None
