"""What the gateway's own account may do below a base: by the directory's own word where it gives one.

The directory computes for each object which attributes the reader may write (allowedAttributesEffective) and which
parts of its descriptor (sDRightsEffective), and for each container what may be created in it
(allowedChildClassesEffective; [MS-ADTS] 3.1.1.4.5). Some objects of each class are asked. About extended rights and
deletions it says nothing, so the access control lists are evaluated with the identifiers of the account's own session.
Of a class without any object below the base the entries are evaluated that such an object would inherit.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from uuid import UUID

from active_directory import (
    AccessMask,
    Ace,
    AceFlags,
    And,
    Client,
    Entry,
    Equals,
    Filter,
    MalformedDescriptor,
    Not,
    ObjectTypes,
    Or,
    Scope,
    Subject,
    map_generic,
    parse_descriptor,
    sid_to_text,
)
from directory.security.needed_rights import WRITTEN, Access, Right
from directory.security.object_types import object_types

_SAMPLES: Final = 5
"""Objects of a class that are asked. Whoever delegates does so on containers, so that they seldom differ."""

_ASKED: Final = ("objectClass", "allowedAttributesEffective", "sDRightsEffective")
_BY_ENTRIES: Final = frozenset({"name", "cn", "ou"})
"""What renaming writes: not every directory lists them as attributes that may be written."""

# [MS-ADTS] 3.1.1.4.5.4: the bits of sDRightsEffective, as of SECURITY_INFORMATION.
_OWNER, _DACL = 0x1, 0x4


@dataclass(frozen=True, slots=True)
class Account:
    """Who the gateway is in the directory: its own SID, if its object can be found, and every SID that counts."""

    sid: str | None
    sids: frozenset[str]


def account_of(client: Client) -> Account:
    """The account that the client signs in as.

    The rootDSE tells the SIDs of the session that asks ([MS-ADTS] 3.1.1.3.2.36, tokenGroups): groups of other domains
    and well-known ones are among them, which no search for memberships would find.
    """
    sids = frozenset(sid_to_text(value) for value in client.read("", ("tokenGroups",)).values("tokenGroups"))
    found = (sid_to_text(value) for entry in _find_accounts(client) for value in entry.values("objectSid"))
    return Account(next((sid for sid in found if sid in sids), None), sids)


def _find_accounts(client: Client) -> Iterable[Entry]:
    """Who may be meant by the bind name: `name@domain` holds for an account without such a userPrincipalName, too."""
    name = client.settings.bind_dn
    if "=" in name:
        found = client.find(name, ("objectSid",))
        return [found] if found is not None else []
    plain = name.rpartition("\\")[2]
    meant = Or(Equals("userPrincipalName", plain), Equals("sAMAccountName", plain.partition("@")[0]))
    return client.search(client.default_naming_context, Scope.SUBTREE, meant, ("objectSid",), limit=10, whole=True)


@dataclass
class EffectiveRights:
    """The rights of an account at one base. Each answer is True, False, or None where it cannot be known."""

    client: Client
    base: Entry
    account: Account
    further: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Attributes by class that are written besides the usual ones."""
    _samples: dict[str, list[Entry]] = field(default_factory=dict)

    @classmethod
    def at(
        cls, client: Client, base_dn: str, account: Account, *, further: Mapping[str, Collection[str]]
    ) -> "EffectiveRights":
        """Read the base; raises LdapError, NotFound when there is no such object."""
        base = client.read(base_dn, (*_ASKED, "allowedChildClassesEffective"), descriptor=True)
        return cls(client, base, account, further)

    def attributes_of(self, right: Right) -> tuple[str, ...]:
        """The attributes that a right to write is about: those of the schema, as it spells them."""
        object_class = right.object_class or ""
        usual = (*WRITTEN.get(object_class, ()), *sorted(self.further.get(object_class, ())))
        known = (self.client.schema.attribute(name) for name in ((right.name,) if right.name else usual))
        return tuple(dict.fromkeys(attribute.name for attribute in known if attribute is not None))

    def holds(self, right: Right) -> bool | None:
        """Whether the account has the right; one to write what is usual, if it may write all of that."""
        if right.access is Access.CREATE:
            return (right.object_class or "").lower() in {name.lower() for name in self.creatable}
        if right.access is Access.DELETE:
            return self._may_delete(right.object_class or "")
        if right.access is Access.EXTENDED:
            return self._has_extended(right)
        missing = self.unwritable(right)
        return None if missing is None else not missing

    def unwritable(self, right: Right) -> tuple[str, ...] | None:
        """Which of the attributes that the right is about the account may not write; None where that is not known."""
        samples = self.samples(right.object_class or "")
        inherited = None if samples else self._inherited_by(right.object_class or "")
        if not samples and inherited is None:
            return None

        def is_writable(name: str) -> bool:
            if inherited is not None:
                return self.has(inherited, AccessMask.WRITE_PROPERTY, self.attribute_types(name))
            return all(self._may_write(name, entry) for entry in samples)

        return tuple(name for name in self.attributes_of(right) if not is_writable(name))

    def _may_write(self, name: str, entry: Entry) -> bool:
        if name.lower() not in _BY_ENTRIES:
            return name.lower() in {each.lower() for each in entry.texts("allowedAttributesEffective")}
        aces = applying(entry)
        return aces is not None and self.has(aces, AccessMask.WRITE_PROPERTY, self.attribute_types(name))

    @cached_property
    def creatable(self) -> frozenset[str]:
        """Classes of which the account may make objects in the base."""
        return frozenset(self.base.texts("allowedChildClassesEffective"))

    def writable(self, object_class: str) -> frozenset[str]:
        """Attributes that the account may write on every object of the class that was asked; none without objects."""
        each = [frozenset(entry.texts("allowedAttributesEffective")) for entry in self.samples(object_class)]
        return frozenset.intersection(*each) if each else frozenset()

    def may_change_access(self, object_class: str | None = None) -> bool:
        """Whether it may change access control lists or owners: of the base, or of an object of the class."""
        entries = [self.base] if object_class is None else self.samples(object_class)
        return any(entry.number("sDRightsEffective") & (_OWNER | _DACL) for entry in entries)

    def samples(self, object_class: str) -> list[Entry]:
        """Some objects of the class below the base, of those that ordinary delegation reaches."""
        if object_class not in self._samples:
            base, condition = self.base.dn, _of_class(object_class)
            found = self.client.search(
                *(base, Scope.SUBTREE, condition, _ASKED), limit=_SAMPLES, descriptor=True, whole=True
            )
            self._samples[object_class] = list(found)
        return self._samples[object_class]

    def _may_delete(self, object_class: str) -> bool | None:
        """By a right on the container that holds the object, or by one on the object ([MS-ADTS] 3.1.1.5.5.1)."""
        here = applying(self.base)
        if here is None:
            return None
        if self.has(here, AccessMask.DELETE_CHILD, {None, self._types.guid_of(Subject.CLASS, object_class)}):
            return True
        return bool(self._has_on_objects(object_class, AccessMask.DELETE, {None}))

    def _has_extended(self, right: Right) -> bool | None:
        types = {None, self._types.guid_of(Subject.EXTENDED_RIGHT, right.name)}
        if right.object_class is not None:
            return self._has_on_objects(right.object_class, AccessMask.CONTROL_ACCESS, types)
        aces = applying(self.client.read(self.client.default_naming_context, (), descriptor=True))
        return None if aces is None else self.has(aces, AccessMask.CONTROL_ACCESS, types)

    def _has_on_objects(self, object_class: str, right: AccessMask, types: Collection[UUID | None]) -> bool | None:
        """Whether every object asked grants a right; without any, whether it would be inherited. None: not known."""
        lists = [applying(entry) for entry in self.samples(object_class)] or [self._inherited_by(object_class)]
        granted = [aces is not None and self.has(aces, right, types) for aces in lists]
        return None if None in lists else all(granted)

    def has(self, aces: Iterable[Ace], right: AccessMask, types: Collection[UUID | None]) -> bool:
        """Whether these entries grant the account a right to anything of these types."""
        # The first entry that speaks of the right decides ([MS-DTYP] 2.5.3.2). Conditions are not evaluated: an entry
        # that grants under one does not count, one that denies does.
        for ace in aces:
            is_meant = right in map_generic(ace.mask) and ace.object_type in types and ace.sid in self.account.sids
            if is_meant and (ace.denies or (ace.allows and not ace.conditional)):
                return ace.allows
        return False

    def _inherited_by(self, object_class: str) -> list[Ace] | None:
        """The entries that an object of the class would get from the base; None when they cannot be read."""
        aces = aces_of(self.base)
        if aces is None:
            return None
        own = self._types.guid_of(Subject.CLASS, object_class)
        return [
            ace for ace in aces if AceFlags.CONTAINER_INHERIT in ace.flags and ace.inherited_object_type in (None, own)
        ]

    @cached_property
    def _types(self) -> ObjectTypes:
        return object_types(self.client)

    def attribute_types(self, name: str) -> set[UUID | None]:
        """What an entry may name that speaks of an attribute: nothing, the attribute, or its property set."""
        attribute = self.client.schema.attribute(name)
        return {None, *((attribute.schema_id_guid, attribute.property_set_guid) if attribute else ())}


def _of_class(object_class: str) -> Filter:
    """Objects of the class, but for administrators and what the domain cannot be without: they inherit nothing."""
    ordinary = (Not(Equals("adminCount", "1")), Not(Equals("isCriticalSystemObject", "TRUE")))
    if object_class == "user":  # computers are users too
        return And(Equals("objectClass", "user"), Not(Equals("objectClass", "computer")), *ordinary)
    return And(Equals("objectClass", object_class), *ordinary)


def aces_of(entry: Entry) -> tuple[Ace, ...] | None:
    """The access control list of an entry; None when the account may not read it, or it is none."""
    values = entry.values("nTSecurityDescriptor")
    if not values:
        return None
    try:
        descriptor = parse_descriptor(values[0])
    except MalformedDescriptor:
        return None
    return descriptor.dacl.aces if descriptor.dacl is not None else None


def applying(entry: Entry) -> list[Ace] | None:
    """The entries of its list that hold for an object itself, not only for what inherits them; see `aces_of`."""
    aces = aces_of(entry)
    return None if aces is None else [ace for ace in aces if ace.applies_here]
