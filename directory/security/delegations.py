"""What was delegated on an organizational unit: its explicit entries that are not defaults, and inherited ones.

The table `TASKS` gives each entry the name of the task that its rights make up.
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
    Client,
    DistinguishedName,
    Entry,
    Equals,
    InstanceType,
    MalformedSddl,
    ObjectType,
    ObjectTypes,
    Scope,
    SecurityDescriptor,
    Subject,
    map_generic,
    parse_sddl,
)
from core.call import Call
from core.text.messages import message
from directory import errors
from directory.lookup.access import client_of, find_object
from directory.lookup.connection import domain_sid
from directory.lookup.visibility import Visibility, visibility_of
from directory.security.access_control import (
    OPEN_ACCESS,
    DelegatedTask,
    Delegation,
    Delegations,
    ResolvedNames,
    Source,
    descriptor_of,
)
from directory.shapes.kinds import RESOURCES

# An object's own entries have the SIDs of its creator and the creator's group instead ([MS-DTYP] 2.5.3.4.3).
_CREATOR_OWNER_SID, _CREATOR_GROUP_SID = "S-1-3-0", "S-1-3-1"
# The protection from accidental deletion denies these to Everyone, on the object or on its parent.
_DELETION = AccessMask.DELETE | AccessMask.DELETE_TREE | AccessMask.DELETE_CHILD
_INHERITANCE_FLAGS = (
    AceFlags.CONTAINER_INHERIT | AceFlags.OBJECT_INHERIT | AceFlags.NO_PROPAGATE | AceFlags.INHERIT_ONLY
)

_NO_RIGHTS = AccessMask(0)


ANY_CLASS = "*"


@dataclass(frozen=True, slots=True)
class Need:
    """Rights that one entry must have for a task.

    `subject` and `name` are the attribute, child class or extended right that the entry must be limited to; without
    them it must not be limited. `below` is the class of the objects that the entry must apply to, or ANY_CLASS. `along`
    are rights that usually come with the others and then mean nothing of their own.
    """

    rights: AccessMask
    subject: Subject | None = None
    name: str = ""
    below: str = ANY_CLASS
    along: AccessMask = _NO_RIGHTS


class Task:
    """A task's name and what it needs. Several tasks of one name are different ways to delegate it."""

    def __init__(self, name: str, *needs: Need) -> None:
        self.name = name
        self.needs = needs


def _reading(attribute: str) -> Need:
    """Reading an attribute; a confidential one also needs control access ([MS-ADTS] 3.1.1.4.4)."""
    return Need(AccessMask.READ_PROPERTY, Subject.ATTRIBUTE, attribute, along=AccessMask.CONTROL_ACCESS)


def _writing(name: str, subject: Subject = Subject.ATTRIBUTE) -> Need:
    """Writing an attribute or property set; delegations usually grant reading it, too."""
    return Need(AccessMask.WRITE_PROPERTY, subject, name, along=AccessMask.READ_PROPERTY)


def _extended_right(name: str, *, below: str = ANY_CLASS) -> Need:
    """An extended right, by its common name."""
    return Need(AccessMask.CONTROL_ACCESS, Subject.EXTENDED_RIGHT, name, below)


def _validated_write(name: str, *, below: str = ANY_CLASS) -> Need:
    """A write whose value the directory checks, by its common name."""
    return Need(AccessMask.SELF_WRITE, Subject.VALIDATED_WRITE, name, below)


def _creating(object_class: str) -> Need:
    """Creating objects of a class directly below."""
    return Need(AccessMask.CREATE_CHILD, Subject.CLASS, object_class)


_PLURALS = {
    **{resource.object_class: resource.many for resource in RESOURCES.values() if resource.object_class},
    "inetOrgPerson": "inetOrgPerson users",
}
_READING = AccessMask.LIST_CHILDREN | AccessMask.LIST_OBJECT | AccessMask.READ_CONTROL

_LAPS_PASSWORDS = ("ms-Mcs-AdmPwd", "msLAPS-Password", "msLAPS-EncryptedPassword", "msLAPS-EncryptedPasswordHistory")
_REPLICATION = (
    "DS-Replication-Get-Changes",
    "DS-Replication-Get-Changes-All",
    "DS-Replication-Get-Changes-In-Filtered-Set",
)

FULL = "Full control"
CUSTOM = "Custom"
# From the widest to the narrowest: a later task does not name rights again that an earlier one has taken. Full control,
# of the object or of the objects of one class below it, comes before all of them.
TASKS: tuple[Task, ...] = (
    *(
        Task(f"Create and delete {plural}", _creating(name), Need(AccessMask.DELETE_CHILD, Subject.CLASS, name))
        for name, plural in _PLURALS.items()
    ),
    Task("Create and delete all objects", Need(AccessMask.CREATE_CHILD), Need(AccessMask.DELETE_CHILD)),
    Task("Join computers to the domain", _creating("computer")),
    Task(
        "Join computers to the domain",
        _extended_right("User-Force-Change-Password", below="computer"),
        _validated_write("Validated-DNS-Host-Name", below="computer"),
        _validated_write("Validated-SPN", below="computer"),
    ),
    Task("Reset password", _extended_right("User-Force-Change-Password")),
    Task("Force password change at next sign-in", _writing("pwdLastSet")),
    Task("Unlock accounts", _writing("lockoutTime")),
    Task("Enable and disable accounts", _writing("userAccountControl")),
    Task("Manage group membership", _writing("member")),
    Task("Manage group membership", _writing("Membership", Subject.PROPERTY_SET)),
    Task("Link group policies", _writing("gPLink"), _writing("gPOptions")),
    Task("Link group policies", _writing("gPLink")),
    *(Task("Read LAPS passwords", _reading(name)) for name in _LAPS_PASSWORDS),
    *(Task("Replicate directory changes", _extended_right(name)) for name in _REPLICATION),
    Task("Read all properties", Need(AccessMask.READ_PROPERTY, along=_READING)),
    Task(
        "Write all properties",
        Need(AccessMask.WRITE_PROPERTY, along=AccessMask.SELF_WRITE | AccessMask.READ_CONTROL),
    ),
    Task("Create all objects", Need(AccessMask.CREATE_CHILD)),
    Task("Delete all objects", Need(AccessMask.DELETE_CHILD)),
    Task("Delete objects with all below", Need(AccessMask.DELETE_TREE, along=AccessMask.DELETE)),
    Task("Delete objects", Need(AccessMask.DELETE)),
    Task("All extended rights", Need(AccessMask.CONTROL_ACCESS)),
    Task("All validated writes", Need(AccessMask.SELF_WRITE)),
    Task("Modify permissions", Need(AccessMask.WRITE_DACL)),
    Task("Take ownership", Need(AccessMask.WRITE_OWNER)),
    Task("List contents", Need(AccessMask.LIST_CHILDREN, along=_READING)),
    Task("Read permissions", Need(AccessMask.READ_CONTROL)),
)

# The rights that an object type can limit, grouped by what the object type then names.
_OF_CHILDREN = AccessMask.CREATE_CHILD | AccessMask.DELETE_CHILD
_OF_PROPERTIES = AccessMask.READ_PROPERTY | AccessMask.WRITE_PROPERTY
_CONFINABLE = (_OF_CHILDREN, _OF_PROPERTIES, AccessMask.CONTROL_ACCESS, AccessMask.SELF_WRITE)
_PROPERTIES = (Subject.ATTRIBUTE, Subject.PROPERTY_SET)
_CHILD_ACTIONS = {
    AccessMask.CREATE_CHILD: "Create",
    AccessMask.DELETE_CHILD: "Delete",
    _OF_CHILDREN: "Create and delete",
}


@dataclass(slots=True)
class Grant:
    """An entry, and those of its rights that no task has taken yet, with generic rights mapped to specific ones.

    `place` is the object that the entry was made on; None when no object above has such an entry.
    """

    ace: Ace
    rights: AccessMask
    origin: "_SecuredObject | None" = None


def name_tasks(grants: Sequence[Grant], types: ObjectTypes) -> dict[str, list[Ace]]:
    """The entries by the names of the tasks they make up, in the order of the table.

    The grants are those of one principal on one object, and either all grant or all deny. Rights that make up no task
    get a name of their own, or `Custom`. All rights are taken from the grants.
    """
    tasks: dict[str, list[Ace]] = {}
    for grant in grants:
        if FULL_CONTROL in grant.rights and grant.ace.object_type is None:
            below = grant.ace.inherited_object_type
            grant.rights &= ~FULL_CONTROL
            _add_entry(tasks, f"Manage {_plural(types.name_of(Subject.CLASS, below))}" if below else FULL, grant.ace)
    for task in TASKS:
        _assign_task(task, grants, types, tasks)
    for grant in grants:
        for name in _remaining_names(grant, types):
            _add_entry(tasks, name, grant.ace)
    return tasks


def _assign_task(task: Task, grants: Sequence[Grant], types: ObjectTypes, tasks: dict[str, list[Ace]]) -> None:
    holding = [[grant for grant in grants if _meets(grant, need, types)] for need in task.needs]
    if not all(holding):
        return
    for need, some in zip(task.needs, holding, strict=True):
        for grant in some:
            grant.rights &= ~(need.rights | need.along)
            _add_entry(tasks, task.name, grant.ace)


def _meets(grant: Grant, need: Need, types: ObjectTypes) -> bool:
    if need.rights not in grant.rights:
        return False
    wanted = types.guid_of(need.subject, need.name) if need.subject else None
    if grant.ace.object_type != wanted or (need.subject is not None and wanted is None):
        return False
    if need.below == ANY_CLASS:
        return True
    below = grant.ace.inherited_object_type
    return below is not None and below == types.guid_of(Subject.CLASS, need.below)


def _remaining_names(grant: Grant, types: ObjectTypes) -> Iterator[str]:
    """Names for the rights that no task has taken."""
    left = grant.rights
    if grant.ace.object_type is None:
        if left:
            yield CUSTOM
        return
    for rights in _CONFINABLE:
        if left & rights:
            meaning = types.resolve(grant.ace.object_type, left & rights)
            # Control access to a confidential attribute is part of reading or writing it.
            is_part = rights is AccessMask.CONTROL_ACCESS and meaning.kind in _PROPERTIES
            if not (is_part and grant.rights & _OF_PROPERTIES):
                yield _right_name(meaning, left & rights)
        left &= ~rights
    if left:
        yield CUSTOM


def _right_name(meaning: ObjectType, rights: AccessMask) -> str:
    if meaning.name is None:
        return CUSTOM
    if meaning.kind is Subject.CLASS:
        action = _CHILD_ACTIONS.get(rights & _OF_CHILDREN)
        return f"{action} {_plural(meaning.name)}" if action else CUSTOM
    if meaning.kind in _PROPERTIES:
        return f"{'Write' if AccessMask.WRITE_PROPERTY in rights else 'Read'} {meaning.name}"
    return meaning.name.replace("-", " ")


def _plural(object_class: str | None) -> str:
    return _PLURALS.get(object_class or "", f"{object_class or 'unknown'} objects")


def _add_entry(tasks: dict[str, list[Ace]], name: str, ace: Ace) -> None:
    entries = tasks.setdefault(name, [])
    if not any(known is ace for known in entries):
        entries.append(ace)


def find_delegations(call: Call, id: UUID, *, inherited: bool) -> Delegations:
    """The tasks delegated on an organizational unit, by principal; with `inherited` also those inherited from above.

    Raises as `find_object`, and as `descriptor_of` for the unit and, with `inherited`, the objects above it.
    """
    client = client_of(call)
    unit = _SecuredObject.read(client, find_object(call, id, kinds=RESOURCES["organization-units"].kinds).dn)
    by_principal: dict[str, list[Grant]] = defaultdict(list)
    for grant in (*unit.grants(), *(_inherited_grants(client, unit) if inherited else ())):
        if grant.rights and grant.ace.sid is not None:
            by_principal[grant.ace.sid].append(grant)
    visibility = visibility_of(call)
    names = ResolvedNames.of(client, by_principal)
    items: list[Delegation] = [
        {"principal": names.principals[sid], "tasks": _delegated_tasks(some, names, visibility)}
        for sid, some in by_principal.items()
    ]
    return {"items": items}


@dataclass(frozen=True, slots=True)
class _SecuredObject:
    """An object, its security descriptor, and the default entries that its class gives to new objects."""

    entry: Entry
    descriptor: SecurityDescriptor
    defaults: tuple[Ace, ...]

    @classmethod
    def read(cls, client: Client, dn: str) -> "_SecuredObject":
        entry = client.find(dn, ("objectGUID", "objectClass", "instanceType"), descriptor=True)
        if entry is None or not entry.object_classes:
            raise errors.DirectoryDenied(message("The gateway's own account may not read every object above this one"))
        return cls(entry, descriptor_of(entry), _default_aces(client, entry.object_classes[-1]))

    @property
    def is_root(self) -> bool:
        """Whether it is the head of its naming context, which inherits nothing from above."""
        return bool(self.entry.number("instanceType") & InstanceType.HEAD_OF_NAMING_CONTEXT)

    def entries(self, *, inherited: bool) -> list[Ace]:
        """The entries that grant or deny: the inherited ones, or those made on the object itself."""
        aces = self.descriptor.dacl.aces if self.descriptor.dacl is not None else (OPEN_ACCESS,)
        return [ace for ace in aces if (ace.allows or ace.denies) and ace.is_inherited is inherited]

    def grants(self) -> list[Grant]:
        """The entries made on the object itself, with their rights beyond defaults and protection from deletion."""
        given: dict[object, AccessMask] = defaultdict(lambda: _NO_RIGHTS)
        for ace in self.defaults:
            owned = replace(ace, sid=self.resolve_creator(ace.sid))
            given[_default_key(owned)] |= map_generic(ace.mask)
        return [
            Grant(
                ace,
                _NO_RIGHTS
                if _is_deletion_protection(ace)
                else _rights_beyond(map_generic(ace.mask), given[_default_key(ace)]),
                self,
            )
            for ace in self.entries(inherited=False)
        ]

    def resolve_creator(self, sid: str | None) -> str | None:
        """The SID that an entry for Creator Owner or Creator Group has on this object; any other SID unchanged."""
        if sid == _CREATOR_OWNER_SID:
            return self.descriptor.owner
        return self.descriptor.group if sid == _CREATOR_GROUP_SID else sid


def _inherited_grants(client: Client, unit: _SecuredObject) -> Iterator[Grant]:
    """The inherited entries of a unit, with their rights beyond the defaults of the objects they were made on."""
    made: dict[object, list[Grant]] = defaultdict(list)
    of_unit = client.schema.object_class(unit.entry.object_classes[-1])
    for distance, place in enumerate(_parents(client, unit)):
        for grant in place.grants():
            flags = grant.ace.flags
            if AceFlags.CONTAINER_INHERIT not in flags or (distance and AceFlags.NO_PROPAGATE in flags):
                continue
            forms = {grant.ace, replace(grant.ace, sid=unit.resolve_creator(grant.ace.sid))}
            # An entry for objects of the unit's class applies to the unit itself, which may have it without the class.
            if of_unit is not None and grant.ace.inherited_object_type == of_unit.schema_id_guid:
                forms |= {replace(ace, inherited_object_type=None) for ace in forms}
            for key in {_inheritance_key(ace) for ace in forms}:
                made[key].append(grant)
    for ace in unit.entries(inherited=True):
        if makers := made[_inheritance_key(ace)]:
            # When two objects above have the same entry, the unit inherits both, first that of the nearer object.
            maker = makers.pop(0) if len(makers) > 1 else makers[0]
            yield Grant(ace, maker.rights, maker.origin)
        else:
            yield Grant(ace, map_generic(ace.mask))


def _parents(client: Client, unit: _SecuredObject) -> Iterator[_SecuredObject]:
    """The objects above whose entries the unit inherits, the nearest first."""
    current = unit
    name = DistinguishedName.parse(unit.entry.dn).parent
    while name is not None and not current.is_root and not current.descriptor.is_inheritance_blocked:
        current = _SecuredObject.read(client, str(name))
        yield current
        name = name.parent


def _delegated_tasks(grants: Sequence[Grant], names: ResolvedNames, visibility: Visibility) -> list[DelegatedTask]:
    """One principal's tasks, granted and denied, grouped by the object that the entries were made on."""
    groups: dict[object, list[Grant]] = defaultdict(list)
    for grant in grants:
        groups[grant.origin and grant.origin.entry.guid, grant.ace.denies].append(grant)

    def source(place: _SecuredObject | None) -> Source | None:
        if place is None or not visibility.can_see(place.entry.dn):
            return None
        return {"id": str(place.entry.guid), "distinguishedName": place.entry.dn}

    return [
        {
            "name": name,
            "type": "deny" if some[0].ace.denies else "allow",
            "source": source(some[0].origin),
            "entries": [names.entry(ace) for ace in aces],
        }
        for some in groups.values()
        for name, aces in name_tasks(some, names.types).items()
    ]


def _default_aces(client: Client, object_class: str) -> tuple[Ace, ...]:
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
        except MalformedSddl:  # in a schema extension; its objects then have no known defaults
            continue
        return descriptor.dacl.aces if descriptor.dacl else ()
    return ()


def _rights_beyond(rights: AccessMask, given: AccessMask) -> AccessMask:
    """The rights beyond those given by default. Full control stays whole where the defaults give only a part of it."""
    more = rights & ~given
    return rights if more and FULL_CONTROL in rights else more


def _is_deletion_protection(ace: Ace) -> bool:
    """Whether the entry only protects from accidental deletion."""
    return ace.denies and ace.sid == EVERYONE_SID and ace.object_type is None and not ace.mask & ~_DELETION


def _default_key(ace: Ace) -> object:
    return ace.type, ace.sid, ace.object_type, ace.inherited_object_type, ace.flags & _INHERITANCE_FLAGS, ace.body


def _inheritance_key(ace: Ace) -> object:
    # An entry and its inherited copies may differ in their inheritance flags, and in an object or plain ACE type.
    return ace.denies, ace.sid, ace.object_type, ace.inherited_object_type, map_generic(ace.mask), ace.body
