"""What the gateway's own account may do below a base, computed by the directory itself wherever it does so.

The directory computes for each object which attributes the account may write (allowedAttributesEffective) and which
parts of the descriptor (sDRightsEffective), and for each container which classes it may create there
(allowedChildClassesEffective; [MS-ADTS] 3.1.1.4.5). Some objects of each class are sampled. The directory does not
compute extended rights and deletions, so access control lists are evaluated here with the SIDs of the account's
session. For a class without objects below the base, the entries are evaluated that such an object would inherit.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
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
    Not,
    ObjectTypes,
    Or,
    Scope,
    Subject,
    descriptor_in,
    map_generic,
    sid_to_text,
    text_to_sid,
)
from directory.lookup.access import is_within_any
from directory.lookup.connection import domain_sid
from directory.security.access_control import object_types
from directory.security.needed_rights import USUAL_ATTRIBUTES, Access, Right

SAMPLE_SIZE: Final = 5
"""Sampled objects of each class. Rights are delegated on containers, so that objects seldom differ."""

_CANDIDATES: Final = 400
_FIRST_RID: Final = 1000
"""Lower ones are those of well-known accounts and groups."""
_TO_CHOOSE_BY: Final = ("objectClass", "adminCount", "isCriticalSystemObject")

_EFFECTIVE_ATTRIBUTES: Final = ("objectClass", "allowedAttributesEffective", "sDRightsEffective")
_NAMING_ATTRIBUTES: Final = frozenset({"name", "cn", "ou"})
"""The attributes that a rename writes. Not every directory lists them in allowedAttributesEffective."""

# [MS-ADTS] 3.1.1.4.5.4: the bits of sDRightsEffective, as of SECURITY_INFORMATION.
_OWNER, _DACL = 0x1, 0x4


@dataclass(frozen=True, slots=True)
class Account:
    """The gateway's account: its own SID, if its object can be found, and all SIDs of its session."""

    sid: str | None
    sids: frozenset[str]


def session_account(client: Client) -> Account:
    """The account that the client signs in as.

    tokenGroups of the rootDSE has the SIDs of the session ([MS-ADTS] 3.1.1.3.2.36), with groups of other domains and
    well-known groups, which no search for memberships finds.
    """
    sids = frozenset(sid_to_text(value) for value in client.read("", ("tokenGroups",)).values("tokenGroups"))
    found = (sid_to_text(value) for entry in _find_accounts(client) for value in entry.values("objectSid"))
    return Account(next((sid for sid in found if sid in sids), None), sids)


def _find_accounts(client: Client) -> Iterable[Entry]:
    """The accounts that the bind name may mean: `name@domain` also works for one without that userPrincipalName."""
    name = client.settings.bind_dn
    if "=" in name:
        found = client.find(name, ("objectSid",))
        return [found] if found is not None else []
    plain = name.rpartition("\\")[2]
    meant = Or(Equals("userPrincipalName", plain), Equals("sAMAccountName", plain.partition("@")[0]))
    return client.search(client.default_naming_context, Scope.SUBTREE, meant, ("objectSid",), limit=10, whole=True)


@dataclass
class EffectiveRights:
    """The rights of an account below one base. Answers are True, False, or None where it cannot be known."""

    client: Client
    base: Entry
    account: Account
    candidates: Sequence[Entry] = ()
    """Objects from which samples are taken before any others are looked for; see `find_candidates`."""
    additional: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By class, attributes that are written besides the usual ones."""
    _sampled: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _samples: dict[str, list[Entry]] = field(default_factory=dict)

    @classmethod
    def at(
        cls,
        client: Client,
        base_dn: str,
        account: Account,
        *,
        candidates: Sequence[Entry],
        additional: Mapping[str, Collection[str]],
    ) -> "EffectiveRights":
        """Read the base. Raises LdapError, and NotFound for a base that does not exist."""
        base = client.read(base_dn, (*_EFFECTIVE_ATTRIBUTES, "allowedChildClassesEffective"), descriptor=True)
        return cls(client, base, account, candidates, additional)

    def attributes_of(self, right: Right) -> tuple[str, ...]:
        """The attributes in the schema that a right to write covers, in the schema's spelling."""
        object_class = right.object_class or ""
        usual = (*USUAL_ATTRIBUTES.get(object_class, ()), *sorted(self.additional.get(object_class, ())))
        known = (self.client.schema.attribute(name) for name in ((right.name,) if right.name else usual))
        return tuple(dict.fromkeys(attribute.name for attribute in known if attribute is not None))

    def has_right(self, right: Right) -> bool | None:
        """Whether the account has the right; a right to write the usual attributes only if it may write all of them."""
        if right.access is Access.CREATE:
            return (right.object_class or "").lower() in {name.lower() for name in self.creatable}
        if right.access is Access.DELETE:
            return self._may_delete(right.object_class or "")
        if right.access is Access.EXTENDED:
            return self._has_extended(right)
        missing = self.unwritable(right)
        return None if missing is None else not missing

    def unwritable(self, right: Right) -> tuple[str, ...] | None:
        """The attributes of a right to write that the account may not write; None where that cannot be known."""
        samples = self.samples(right.object_class or "")
        inherited = None if samples else self._inherited_by(right.object_class or "")
        if not samples and inherited is None:
            return None
        writable = {name.lower() for name in self.writable(right.object_class or "")}

        def is_writable(name: str) -> bool:
            if samples and name.lower() not in _NAMING_ATTRIBUTES:
                return name.lower() in writable
            types = self.object_types_of(name)
            lists = [applicable_aces(entry) for entry in samples] if samples else [inherited]
            return all(aces is not None and self.is_granted(aces, AccessMask.WRITE_PROPERTY, types) for aces in lists)

        return tuple(name for name in self.attributes_of(right) if not is_writable(name))

    @cached_property
    def creatable(self) -> frozenset[str]:
        """The classes of objects that the account may create in the base."""
        return frozenset(self.base.texts("allowedChildClassesEffective"))

    def writable(self, object_class: str) -> frozenset[str]:
        """The attributes that the account may write on every sampled object of the class; empty without samples."""
        each = [frozenset(entry.texts("allowedAttributesEffective")) for entry in self.samples(object_class)]
        return frozenset.intersection(*each) if each else frozenset()

    def may_change_access(self, object_class: str | None = None) -> bool:
        """Whether it may change the DACL or owner of the base, or of a sampled object of the class."""
        entries = [self.base] if object_class is None else self.samples(object_class)
        return any(entry.number("sDRightsEffective") & (_OWNER | _DACL) for entry in entries)

    def samples(self, object_class: str) -> list[Entry]:
        """Some objects of the class below the base that inherit delegated rights."""
        if object_class not in self._samples:
            self._samples[object_class] = self.read_samples(object_class, _EFFECTIVE_ATTRIBUTES)
        return self._samples[object_class]

    def read_samples(self, object_class: str, attributes: Collection[str]) -> list[Entry]:
        """The same objects with other attributes.

        They are read one by one: Samba answers a search with all of its matches, and takes 0.5 ms to compute what the
        account may do with each.
        """
        if object_class not in self._sampled:
            self._sampled[object_class] = self._choose_samples(object_class)
        each = (self.client.find(name, tuple(attributes), descriptor=True) for name in self._sampled[object_class])
        return [entry for entry in each if entry is not None]

    def _choose_samples(self, object_class: str) -> tuple[str, ...]:
        known = [
            entry
            for entry in self.candidates
            if _is_of_class(entry, object_class) and is_within_any(entry.dn, (self.base.dn,))
        ]
        found: Iterable[Entry] = known
        if sum(map(_is_ordinary, known)) < SAMPLE_SIZE:
            found = self.client.search(self.base.dn, Scope.SUBTREE, class_filter(object_class), _TO_CHOOSE_BY)
        return tuple(entry.dn for entry in islice(filter(_is_ordinary, found), SAMPLE_SIZE))

    def _may_delete(self, object_class: str) -> bool | None:
        """A right on the parent, or one on the object itself, is enough ([MS-ADTS] 3.1.1.5.5.1)."""
        here = applicable_aces(self.base)
        if here is None:
            return None
        if self.is_granted(here, AccessMask.DELETE_CHILD, {None, self._types.guid_of(Subject.CLASS, object_class)}):
            return True
        return bool(self._has_on_objects(object_class, AccessMask.DELETE, {None}))

    def _has_extended(self, right: Right) -> bool | None:
        types = {None, self._types.guid_of(Subject.EXTENDED_RIGHT, right.name)}
        if right.object_class is not None:
            return self._has_on_objects(right.object_class, AccessMask.CONTROL_ACCESS, types)
        aces = applicable_aces(self.client.read(self.client.default_naming_context, (), descriptor=True))
        return None if aces is None else self.is_granted(aces, AccessMask.CONTROL_ACCESS, types)

    def _has_on_objects(self, object_class: str, right: AccessMask, types: Collection[UUID | None]) -> bool | None:
        """Whether all sampled objects grant a right, or without samples a new object would; None if not known."""
        lists = [applicable_aces(entry) for entry in self.samples(object_class)] or [self._inherited_by(object_class)]
        granted = [aces is not None and self.is_granted(aces, right, types) for aces in lists]
        return None if None in lists else all(granted)

    def is_granted(self, aces: Iterable[Ace], right: AccessMask, types: Collection[UUID | None]) -> bool:
        """Whether these entries grant the account a right limited to one of these object types."""
        ace = deciding_entry(aces, right, types, self.account.sids)
        return ace is not None and ace.allows

    def _inherited_by(self, object_class: str) -> list[Ace] | None:
        """The entries that an object of the class would inherit from the base; None when they cannot be read."""
        aces = dacl_aces(self.base)
        if aces is None:
            return None
        own = self._types.guid_of(Subject.CLASS, object_class)
        return [
            ace for ace in aces if AceFlags.CONTAINER_INHERIT in ace.flags and ace.inherited_object_type in (None, own)
        ]

    @cached_property
    def _types(self) -> ObjectTypes:
        return object_types(self.client)

    def object_types_of(self, name: str) -> set[UUID | None]:
        return attribute_types(self.client, name)


def attribute_types(client: Client, name: str) -> set[UUID | None]:
    """The object types of entries that cover an attribute: None (all), the attribute, or its property set."""
    attribute = client.schema.attribute(name)
    return {None, *((attribute.schema_id_guid, attribute.property_set_guid) if attribute else ())}


def deciding_entry(
    aces: Iterable[Ace], right: AccessMask, types: Collection[UUID | None], sids: Collection[str]
) -> Ace | None:
    """The entry that decides whether some SIDs have a right limited to one of these object types."""
    # The first entry about the right decides ([MS-DTYP] 2.5.3.2). Conditions are not evaluated, to be on the safe
    # side: a conditional entry counts if it denies, and does not if it grants.
    for ace in aces:
        is_meant = right in map_generic(ace.mask) and ace.object_type in types and ace.sid in sids
        if is_meant and (ace.denies or (ace.allows and not ace.is_conditional)):
            return ace
    return None


def class_filter(object_class: str) -> Filter:
    """The filter for objects of a class; for `user` without computers, which are of that class too."""
    is_class = Equals("objectClass", object_class)
    return And(is_class, Not(Equals("objectClass", "computer"))) if object_class == "user" else is_class


def _is_of_class(entry: Entry, object_class: str) -> bool:
    """Whether an entry matches `class_filter`."""
    classes = entry.object_classes
    return object_class in classes and (object_class != "user" or "computer" not in classes)


def _is_ordinary(entry: Entry) -> bool:
    """Whether an object inherits access control, unlike administrators and critical system objects.

    No filter decides this: it would not match objects whose attributes the account may not read.
    """
    return entry.text("adminCount") != "1" and not entry.boolean("isCriticalSystemObject")


def find_candidates(client: Client) -> list[Entry]:
    """Some accounts and groups of the domain, which are spread evenly over the RIDs that it has given away so far.

    The directory has an index of SIDs, but finds the first users below a container by looking at all of them. Empty
    where the account may not read how many RIDs there are.
    """
    manager = client.read(client.default_naming_context, ("rIDManagerReference",)).text("rIDManagerReference")
    pool = None if manager is None else client.find(manager, ("rIDAvailablePool",))
    # The lower half is the first RID that no domain controller has for its accounts yet ([MS-ADA3], rIDAvailablePool).
    end = 0 if pool is None else pool.number("rIDAvailablePool") & 0xFFFFFFFF
    step = max(1, end // _CANDIDATES)
    tried = (Equals("objectSid", text_to_sid(f"{domain_sid(client)}-{rid}")) for rid in range(_FIRST_RID, end, step))
    return list(client.find_any(tried, _TO_CHOOSE_BY))


def dacl_aces(entry: Entry) -> tuple[Ace, ...] | None:
    """The entries of an object's DACL; None when the account may not read it, or there is none."""
    descriptor = descriptor_in(entry)
    return descriptor.dacl.aces if descriptor is not None and descriptor.dacl is not None else None


def applicable_aces(entry: Entry) -> list[Ace] | None:
    """The entries that apply to the object itself, not only to objects that inherit them; None as for `dacl_aces`."""
    aces = dacl_aces(entry)
    return None if aces is None else [ace for ace in aces if ace.applies_here]
