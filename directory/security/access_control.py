"""The access control list of an object, with everything in it resolved to names (docs/api.md#access-control)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from active_directory import (
    AccessMask,
    Ace,
    Client,
    Entry,
    MalformedDescriptor,
    NotExpressible,
    ObjectTypes,
    SecurityDescriptor,
    Subject,
    flag_names,
    parse_descriptor,
    render_sddl,
    right_names,
)
from core.call import Call
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, find_object
from directory.lookup.domain_sid import domain_sid
from directory.security.object_types import object_types
from directory.security.principals import find_principals
from directory.shapes.access_control import (
    AccessControl,
    AccessControlEntry,
    AppliesTo,
    Principal,
    UnreadEntry,
)


def read_access_control(call: Call, id: UUID) -> AccessControl:
    """Owner, group and access control list of an object; raises as `find_object` and `descriptor_of`."""
    client = client_of(call)
    find_object(call, id)
    descriptor = descriptor_of(client.read(id, (), descriptor=True))
    aces = descriptor.dacl.aces if descriptor.dacl is not None else ()
    names = Names.of(client, (descriptor.owner, descriptor.group, *(ace.sid for ace in aces)))
    answer: AccessControl = {
        "owner": names.principals[descriptor.owner] if descriptor.owner else None,
        "group": names.principals[descriptor.group] if descriptor.group else None,
        "inheritanceBlocked": descriptor.inheritance_blocked,
        "sddl": _sddl(client, descriptor),
        "entries": [names.entry(ace) for ace in aces if ace.allows or ace.denies],
    }
    if descriptor.dacl is None:
        answer["nullDacl"] = True
    if unread := [_unread(position, ace) for position, ace in enumerate(aces) if not (ace.allows or ace.denies)]:
        answer["unreadEntries"] = unread
    return answer


def descriptor_of(entry: Entry) -> SecurityDescriptor:
    """The security descriptor of an entry that was read with it.

    Raises DirectoryDenied when the gateway's account may not read it: the directory leaves it out then and says nothing
    ([MS-ADTS] 3.1.1.4.4). Raises DirectoryFailed when it is malformed.
    """
    values = entry.values("nTSecurityDescriptor")
    if not values:
        raise errors.DirectoryDenied(
            message("The gateway's own account may not read this object's access control list")
        )
    try:
        return parse_descriptor(values[0])
    except MalformedDescriptor as error:
        raise errors.DirectoryFailed(message("The object's access control list is malformed")) from error


@dataclass(frozen=True, slots=True)
class Names:
    """The names of everything that some entries speak of."""

    types: ObjectTypes
    principals: Mapping[str, Principal]

    @classmethod
    def of(cls, client: Client, sids: Iterable[str | None]) -> "Names":
        """With the principals of these SIDs looked up."""
        return cls(object_types(client), find_principals(client, (sid for sid in sids if sid is not None)))

    def entry(self, ace: Ace) -> AccessControlEntry:
        """An entry that grants or denies, as it is shown."""
        assert ace.sid is not None  # entries that grant or deny have an account
        below = ace.inherited_object_type
        entry: AccessControlEntry = {
            "type": "deny" if ace.denies else "allow",
            "principal": self.principals[ace.sid],
            "rights": right_names(ace.mask),
            "mask": int(ace.mask),
            "appliesTo": self._applies_to(ace.object_type, ace.mask) if ace.object_type else None,
            "inheritedObjectType": {"guid": str(below), "name": self.types.name_of(Subject.CLASS, below)}
            if below
            else None,
            "inherited": ace.inherited,
            "flags": flag_names(ace.flags),
        }
        if ace.conditional:
            entry["condition"] = ace.body.hex()
        return entry

    def _applies_to(self, guid: UUID, mask: AccessMask) -> AppliesTo:
        meaning = self.types.resolve(guid, mask)
        return {"kind": meaning.subject, "guid": str(guid), "name": meaning.name}


def _unread(position: int, ace: Ace) -> UnreadEntry:
    return {
        "position": position,
        "aceType": int(ace.type),
        "flags": flag_names(ace.flags),
        "content": ace.body.hex(),
    }


def _sddl(client: Client, descriptor: SecurityDescriptor) -> str | None:
    try:
        return render_sddl(descriptor, domain_sid(client))
    except NotExpressible:
        return None
