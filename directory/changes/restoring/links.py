"""What comes back by itself with an object of the recycle bin: the links it had, above all its memberships.

They were made by others before it was deleted, and the directory makes them again without asking anybody: so whoever
restores the object needs what making them would need. (Without the recycle bin they are lost, and
`from_log`'s.)
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from active_directory import Client, Entry, Equals, Scope, decode, names_in
from core.call import Call
from core.text.messages import message
from directory.errors import DirectoryDenied
from directory.groups.ancestry import is_deleted
from directory.lookup.access import require_inside_scopes
from directory.protection.rules import protected_among
from directory.shapes.proposal import AttributeChange
from directory.shapes.record import PROTECTION_ATTRIBUTES

MEMBERSHIPS: Final = ("member", "memberOf")
# By kind of account: Domain Users, Guests, Computers, Controllers and Read-only Domain Controllers ([MS-DTYP] 2.4.2.4).
_PRIMARY_BY_DEFAULT: Final = frozenset({513, 514, 515, 516, 521})


@dataclass(frozen=True, slots=True)
class RestoredLinks:
    """The links that come back, as changes, and what whoever restores the object needs for them."""

    changes: tuple[AttributeChange, ...] = ()
    requires: frozenset[str] = frozenset()
    joins_protected: bool = False
    identities: dict[str, UUID] = field(default_factory=dict)


def find_restored_links(call: Call, client: Client, entry: Entry) -> RestoredLinks:
    """What a deleted object, read with its links and their identities, is linked to again when it lives.

    Raises Forbidden when a group that it joins, or a member that it has, is outside the caller's scopes.
    """
    links = {name: values for name, values in _links(client, entry) if values}
    identities = dict(entry.identities)
    joined = _groups_joined(client, entry, links.get("memberOf", []))
    if joined:
        links["memberOf"] = [group.dn for group in joined]
        identities.update((group.dn, group.guid) for group in joined)
    memberships = [name for attribute in MEMBERSHIPS for name in links.get(attribute, ())]
    require_inside_scopes(call, *memberships)
    return RestoredLinks(
        changes=tuple(AttributeChange(name, (), tuple(values)) for name, values in sorted(links.items())),
        requires=frozenset({"directory.manage_membership"}) if memberships else frozenset(),
        joins_protected=bool(protected_among(client, joined)),
        identities=identities,
    )


def _groups_joined(client: Client, entry: Entry, names: Sequence[str]) -> list[Entry]:
    """The groups that the object is a member of again, its primary one included if it is not that of every account."""
    if any(name not in entry.identities for name in names):
        raise DirectoryDenied(
            message("The gateway's own account may not read all groups that the object would be a member of.")
        )
    found = client.read_many([entry.identities[name] for name in names], (*PROTECTION_ATTRIBUTES, "objectClass"))
    primary = _primary_group(client, entry)
    return [*found.values(), *([] if primary is None or primary.guid in found else [primary])]


def _links(client: Client, entry: Entry) -> Iterator[tuple[str, list[str]]]:
    """Every link of the object, from it and to it, but for those to objects that are deleted themselves."""
    for name in sorted(client.schema.linked):
        attribute = client.schema.attribute(name)
        yield (
            name,
            [
                text
                for text in decode(attribute, entry.values(name))
                if not any(is_deleted(client, linked) for linked in names_in(attribute, text))
            ],
        )


def _primary_group(client: Client, entry: Entry) -> Entry | None:
    """The group that the object belongs to without being listed, unless it is the one that its kind has by default."""
    number, sids = entry.integer("primaryGroupID"), entry.values("objectSid")
    if number is None or number in _PRIMARY_BY_DEFAULT or not sids:
        return None
    condition = Equals("objectSid", sids[0][:-4] + struct.pack("<I", number))
    rows = client.search(client.default_naming_context, Scope.SUBTREE, condition, PROTECTION_ATTRIBUTES, limit=1)
    return next(iter(rows), None)
