"""What was delegated on an organizational unit: explicit entries that are not defaults, and those from above.

Which rights make up which task is `delegation_tasks`' table.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from active_directory import (
    EVERYONE_SID,
    FULL_CONTROL,
    AccessMask,
    Ace,
    AceFlags,
    AceType,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    InstanceType,
    MalformedSddl,
    Scope,
    SecurityDescriptor,
    map_generic,
    parse_sddl,
)
from core.call import Call
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, find_object
from directory.lookup.domain_sid import domain_sid
from directory.lookup.visibility import Visibility, visibility_of
from directory.security.access_control import Names, descriptor_of
from directory.security.delegation_tasks import Grant, name_tasks
from directory.shapes.access_control import DelegatedTask, Delegation, Delegations, Source
from directory.shapes.kinds import RESOURCES

# Stand for whoever creates an object, and are replaced in what the object gets ([MS-DTYP] 2.5.3.4.3).
_CREATOR_OWNER_SID, _CREATOR_GROUP_SID = "S-1-3-0", "S-1-3-1"
# What the protection from accidental deletion denies to everyone, on the object or on the one that holds it.
_DELETION = AccessMask.DELETE | AccessMask.DELETE_TREE | AccessMask.DELETE_CHILD
# An object without a list gives everything to everybody, as this entry would.
_NO_LIST = Ace(AceType.ACCESS_ALLOWED, AceFlags(0), FULL_CONTROL, EVERYONE_SID)
_INHERITANCE = AceFlags.CONTAINER_INHERIT | AceFlags.OBJECT_INHERIT | AceFlags.NO_PROPAGATE | AceFlags.INHERIT_ONLY

_NO_RIGHTS = AccessMask(0)


def find_delegations(call: Call, id: UUID, *, inherited: bool) -> Delegations:
    """The tasks delegated on an organizational unit by principal; with `inherited` those from above, too.

    Raises as `find_object`, and as `descriptor_of` for the unit and, with `inherited`, the objects above it.
    """
    client = client_of(call)
    unit = _Place.read(client, find_object(call, id, kinds=RESOURCES["organization-units"].kinds).dn)
    granted = [_Granted(unit, grant) for grant in unit.grants()]
    if inherited:
        granted += _from_above(client, unit)
    by_principal: dict[str, list[_Granted]] = defaultdict(list)
    for item in granted:
        if item.grant.rights and item.grant.ace.sid is not None:
            by_principal[item.grant.ace.sid].append(item)
    visibility = visibility_of(call)
    names = Names.of(client, by_principal)
    items: list[Delegation] = [
        {"principal": names.principals[sid], "tasks": _tasks(some, names, visibility)}
        for sid, some in by_principal.items()
    ]
    return {"items": items}


@dataclass(frozen=True, slots=True)
class _Place:
    """An object, its security descriptor, and the entries that its class gives to every new object."""

    entry: Entry
    descriptor: SecurityDescriptor
    defaults: tuple[Ace, ...]

    @classmethod
    def read(cls, client: Client, dn: str) -> "_Place":
        entry = client.find(dn, ("objectGUID", "objectClass", "instanceType"), descriptor=True)
        if entry is None or not entry.object_classes:
            raise errors.DirectoryDenied(message("The gateway's own account may not read every object above this one"))
        return cls(entry, descriptor_of(entry), _defaults(client, entry.object_classes[-1]))

    @property
    def is_root(self) -> bool:
        """Whether it is the head of its naming context, above which nothing comes down."""
        return bool(self.entry.number("instanceType") & InstanceType.HEAD_OF_NAMING_CONTEXT)

    @property
    def source(self) -> Source:
        return {"id": str(self.entry.guid), "distinguishedName": self.entry.dn}

    def entries(self, *, inherited: bool) -> list[Ace]:
        """The entries that grant or deny, either those made here or those from above."""
        aces = self.descriptor.dacl.aces if self.descriptor.dacl is not None else (_NO_LIST,)
        return [ace for ace in aces if (ace.allows or ace.denies) and ace.inherited is inherited]

    def grants(self) -> list[Grant]:
        """The entries made here, each with the rights that are neither defaults nor protection from deletion."""
        given: dict[object, AccessMask] = defaultdict(lambda: _NO_RIGHTS)
        for ace in self.defaults:
            owned = replace(ace, sid=self.stands_for(ace.sid))
            given[_default_key(owned)] |= map_generic(ace.mask)
        return [
            Grant(ace, _NO_RIGHTS if _protects(ace) else _beyond(map_generic(ace.mask), given[_default_key(ace)]))
            for ace in self.entries(inherited=False)
        ]

    def stands_for(self, sid: str | None) -> str | None:
        """The account that an entry with this SID is for on this very object."""
        if sid == _CREATOR_OWNER_SID:
            return self.descriptor.owner
        return self.descriptor.group if sid == _CREATOR_GROUP_SID else sid


@dataclass(frozen=True, slots=True)
class _Granted:
    """An entry and the object it was made on; None when no object above has such an entry."""

    place: _Place | None
    grant: Grant


def _from_above(client: Client, unit: _Place) -> list[_Granted]:
    """The inherited entries of a unit, each with the rights that were no default where it was made."""
    made: dict[object, list[_Granted]] = defaultdict(list)
    of_unit = client.schema.object_class(unit.entry.object_classes[-1])
    for distance, place in enumerate(_ancestors(client, unit)):
        for grant in place.grants():
            flags = grant.ace.flags
            if AceFlags.CONTAINER_INHERIT not in flags or (distance and AceFlags.NO_PROPAGATE in flags):
                continue
            forms = {grant.ace, replace(grant.ace, sid=unit.stands_for(grant.ace.sid))}
            # What is for objects of the unit's class counts on the unit itself, and may say so no more.
            if of_unit is not None and grant.ace.inherited_object_type == of_unit.schema_id_guid:
                forms |= {replace(ace, inherited_object_type=None) for ace in forms}
            for key in {_inheritance_key(ace) for ace in forms}:
                made[key].append(_Granted(place, grant))
    found = []
    for ace in unit.entries(inherited=True):
        makers = made[_inheritance_key(ace)]
        if not makers:
            found.append(_Granted(None, Grant(ace, map_generic(ace.mask))))
            continue
        # Two objects above may have the same entry; then the unit has it twice, the nearer one's first.
        maker = makers.pop(0) if len(makers) > 1 else makers[0]
        found.append(_Granted(maker.place, Grant(ace, maker.grant.rights)))
    return found


def _ancestors(client: Client, unit: _Place) -> Iterator[_Place]:
    """The objects above, the nearest first, as far as their entries come down to the unit."""
    place = unit
    name = DistinguishedName.parse(unit.entry.dn).parent
    while name is not None and not place.is_root and not place.descriptor.inheritance_blocked:
        place = _Place.read(client, str(name))
        yield place
        name = name.parent


def _tasks(granted: Sequence[_Granted], names: Names, visibility: Visibility) -> list[DelegatedTask]:
    """One principal's tasks: what was granted and what denied, by the object it was done on."""
    groups: dict[object, list[_Granted]] = defaultdict(list)
    for item in granted:
        groups[item.place and item.place.entry.guid, item.grant.ace.denies].append(item)

    def source(place: _Place | None) -> Source | None:
        return place.source if place is not None and visibility.can_see(place.entry.dn) else None

    return [
        {
            "name": name,
            "type": "deny" if some[0].grant.ace.denies else "allow",
            "source": source(some[0].place),
            "entries": [names.entry(ace) for ace in aces],
        }
        for some in groups.values()
        for name, aces in name_tasks([item.grant for item in some], names.types).items()
    ]


def _defaults(client: Client, object_class: str) -> tuple[Ace, ...]:
    """The entries that a new object of the class gets from the schema ([MS-ADTS] 3.1.1.2.4, 6.1.3)."""
    rows = client.search(
        client.schema_naming_context,
        Scope.ONE_LEVEL,
        Equals("lDAPDisplayName", object_class),
        ("defaultSecurityDescriptor",),
    )
    for text in (row.text("defaultSecurityDescriptor") for row in rows):
        try:
            descriptor = parse_sddl(text or "", domain_sid(client))
        except MalformedSddl:  # of a schema extension: then its objects have no defaults that could be told
            continue
        return descriptor.dacl.aces if descriptor.dacl else ()
    return ()


def _beyond(rights: AccessMask, given: AccessMask) -> AccessMask:
    """The rights that were not given anyway; full control stays what it is, if only a part of it was."""
    more = rights & ~given
    return rights if more and FULL_CONTROL in rights else more


def _protects(ace: Ace) -> bool:
    """Whether it is there against accidental deletion only."""
    return ace.denies and ace.sid == EVERYONE_SID and ace.object_type is None and not ace.mask & ~_DELETION


def _default_key(ace: Ace) -> object:
    return ace.type, ace.sid, ace.object_type, ace.inherited_object_type, ace.flags & _INHERITANCE, ace.body


def _inheritance_key(ace: Ace) -> object:
    # How far it goes on from here differs between the entry and what comes of it, and so may the form of its type.
    return ace.denies, ace.sid, ace.object_type, ace.inherited_object_type, map_generic(ace.mask), ace.body
