"""Who may change an object in the directory itself, without the gateway: by access control entries, or as its owner."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import (
    AUTHENTICATED_USERS_SID,
    EVERYONE_SID,
    AccessMask,
    Ace,
    Client,
    DistinguishedName,
    Entry,
    ObjectTypes,
    SecurityDescriptor,
    Subject,
)
from directory.errors import DirectoryDenied
from directory.security.access_control import (
    OPEN_ACCESS,
    EntryType,
    Principal,
    descriptor_of,
    find_principals,
    object_types,
)
from directory.security.effective_rights import attribute_types, deciding_entry
from directory.security.needed_rights import USUAL_ATTRIBUTES

CHANGE_ACCESS: Final = "change-access-control"
"""Changing the access control list or the owner: whoever may do that can take all other rights."""

_ALL: Final = frozenset({EVERYONE_SID, AUTHENTICATED_USERS_SID})
"""What these are denied, every trustee is denied."""
_WRITTEN: Final = {
    "enable": ("userAccountControl",),
    "disable": ("userAccountControl",),
    "unlock": ("lockoutTime",),
    "change-members": ("member",),
}
"""The attributes that actions write."""


class TrusteeAction(TypedDict):
    """`attributes` are those that an update may write; null where it may write all usual ones, and for other actions.

    `by` tells what it rests on: an entry made on the object or inherited, one on its container, or its ownership.
    """

    action: str
    by: Literal["explicit", "inherited", "container", "owner"]
    attributes: list[str] | None


class Trustee(TypedDict):
    """An account or group, and what entries for it allow or deny; other groups may allow or deny its members more."""

    type: EntryType
    principal: Principal
    actions: list[TrusteeAction]


def find_trustees(client: Client, entry: Entry, actions: Sequence[str]) -> list[Trustee] | None:
    """Who may do these actions, or give themselves the right to; None if the gateway's account may not read it.

    `entry` needs objectClass. Actions that need no right on the object itself are left out.
    """
    try:
        secured = _SecuredObject.read(client, entry)
    except DirectoryDenied:
        return None
    sids = dict.fromkeys((*(ace.sid for ace in (*secured.aces, *secured.above)), secured.owner))
    kinds: tuple[EntryType, ...] = ("allow", "deny")
    found = [(kind, sid, list(secured.actions_of(sid, kind, actions))) for kind in kinds for sid in sids if sid]
    principals = find_principals(client, {sid for _, sid, some in found if some})
    return [{"type": kind, "principal": principals[sid], "actions": some} for kind, sid, some in found if some]


@dataclass(frozen=True, slots=True)
class _SecuredObject:
    """The entries that apply to an object, and those of the container `above` it."""

    client: Client
    types: ObjectTypes
    object_class: str
    owner: str | None
    aces: Sequence[Ace]
    above: Sequence[Ace]

    @classmethod
    def read(cls, client: Client, entry: Entry) -> "_SecuredObject":
        descriptor = descriptor_of(client.read(entry.guid, (), descriptor=True))
        above: Sequence[Ace] = ()
        parent = DistinguishedName.parse(entry.dn).parent
        with suppress(DirectoryDenied):
            container = client.find(str(parent), (), descriptor=True) if parent else None
            above = _applicable(descriptor_of(container)) if container else ()
        usual = (name for name in reversed(entry.object_classes) if name in USUAL_ATTRIBUTES)
        aces = _applicable(descriptor)
        return cls(client, object_types(client), next(usual, "contact"), descriptor.owner, aces, above)

    def actions_of(self, sid: str, kind: EntryType, actions: Sequence[str]) -> Iterator[TrusteeAction]:
        """What entries for a trustee allow, or deny."""
        for action in (*actions, CHANGE_ACCESS):
            needed = self._needed_for(action)
            found = [(need, ace) for need in needed if (ace := self._deciding_entry(sid, kind, need)) is not None]
            is_any_enough = kind == "deny" or action in ("update", CHANGE_ACCESS)
            if found and (is_any_enough or len(found) == len(needed)):
                names = [need.attribute for need, _ in found] if action == "update" else []
                attributes = names if 0 < len(names) < len(needed) else None
                yield {"action": action, "by": self._way([ace for _, ace in found]), "attributes": attributes}
            elif action == CHANGE_ACCESS and kind == "allow" and sid == self.owner:  # whatever the list says
                yield {"action": action, "by": "owner", "attributes": None}

    def _needed_for(self, action: str) -> list["_Need"]:
        """The rights that an action needs. Of those for an update, and for changing access, one is enough."""
        name = ("name", "ou" if self.object_class == "organizationalUnit" else "cn")
        if action == CHANGE_ACCESS:
            return [_Need(AccessMask.WRITE_DACL), _Need(AccessMask.WRITE_OWNER)]
        if action == "delete":
            return [_Need(AccessMask.DELETE)]
        if action == "move":  # it deletes here, creates there, and writes the name ([MS-ADTS] 3.1.1.5.4.1)
            return [_Need(AccessMask.DELETE), *map(self._writing, name)]
        if action == "reset-password":
            right = self.types.guid_of(Subject.EXTENDED_RIGHT, "User-Force-Change-Password")
            return [_Need(AccessMask.CONTROL_ACCESS, frozenset({None, right}))]
        named = {"update": USUAL_ATTRIBUTES[self.object_class], "rename": name, **_WRITTEN}
        return list(map(self._writing, named.get(action, ())))

    def _writing(self, attribute: str) -> "_Need":
        return _Need(AccessMask.WRITE_PROPERTY, frozenset(attribute_types(self.client, attribute)), attribute)

    def _deciding_entry(self, sid: str, kind: EntryType, need: "_Need") -> Ace | None:
        """The entry for a trustee that allows what is needed, unless everybody is denied it, or the one that denies."""
        if kind == "deny":
            ace = deciding_entry(self.aces, need.right, need.types, {sid})
            return ace if ace is not None and ace.denies else None
        found = _allowing_entry(self.aces, need, sid)
        if found is None and need.right is AccessMask.DELETE:
            # A right on the container is enough to delete what is in it ([MS-ADTS] 3.1.1.5.5.1).
            types = frozenset({None, self.types.guid_of(Subject.CLASS, self.object_class)})
            found = _allowing_entry(self.above, _Need(AccessMask.DELETE_CHILD, types), sid)
        return found

    def _way(self, aces: Sequence[Ace]) -> Literal["explicit", "inherited", "container"]:
        if any(ace is other for ace in aces for other in self.above):
            return "container"
        return "inherited" if all(ace.is_inherited for ace in aces) else "explicit"


class _Need(NamedTuple):
    """A right, limited to one of these object types, to write the `attribute` if there is one."""

    right: AccessMask
    types: frozenset[UUID | None] = frozenset({None})
    attribute: str = ""


def _allowing_entry(aces: Sequence[Ace], need: _Need, sid: str) -> Ace | None:
    """The entry for a trustee that allows what is needed, unless one before denies it, to it or to everybody."""
    own, first = (deciding_entry(aces, need.right, need.types, sids) for sids in ({sid}, {sid, *_ALL}))
    return own if own is not None and own.allows and first is not None and first.allows else None


def _applicable(descriptor: SecurityDescriptor) -> list[Ace]:
    """The entries that apply to an object itself."""
    aces = descriptor.dacl.aces if descriptor.dacl is not None else (OPEN_ACCESS,)
    return [ace for ace in aces if ace.applies_here]
