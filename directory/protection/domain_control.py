"""Who holds the domain by access control: by an entry in the list of the domain's head, or in that of AdminSDHolder.

The first is inherited by what is below it, the second is put on every administrator ([MS-ADTS] 3.1.1.6.1). Entries that
deny are not looked at: what they take away from whom depends on their order and on the groups of each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID
from weakref import WeakKeyDictionary

import structlog

from active_directory import (
    AccessMask,
    Ace,
    Client,
    Equals,
    MalformedDescriptor,
    SecurityDescriptor,
    map_generic,
    parse_descriptor,
    text_to_sid,
)
from directory.protection.domain_infrastructure import Places, places_of

logger = structlog.get_logger(__name__)

_STATE_ATTRIBUTES = ("uSNChanged", "whenChanged")
"""What tells whether an object's access control list may have changed since it was read."""

# Accounts and groups of a domain, and the built-in groups; others, such as SYSTEM, are nobody that could be changed.
_OF_DIRECTORIES = ("S-1-5-21-", "S-1-5-32-")

# Extended rights ([MS-ADTS] 5.1.3.2.1), by their rightsGuid.
_EXTENDED_RIGHTS = {
    UUID("1131f6ad-9c07-11d1-f79f-00c04fc2dcd2"): "replicate the secrets of",  # DS-Replication-Get-Changes-All
    UUID("89e95b76-444d-4c62-991a-0facbeda640c"): "replicate the secrets of",  # …-Get-Changes-In-Filtered-Set
    UUID("00299570-246d-11d0-a768-00aa006e0529"): "reset passwords in",  # User-Force-Change-Password
    UUID("9923a32a-3607-11d2-b9be-0000f87a36b2"): "add domain controllers to",  # DS-Install-Replica
    UUID("ba33815a-4f93-4c76-87f3-57574bff8109"): "give SID histories in",  # Migrate-SID-History
}
# schemaIDGUIDs, and the rightsGuids of property sets. Whoever may write these attributes of a computer may be anybody
# on it, and domain controllers are computers below the domain's head.
_OF_COMPUTERS = frozenset(
    map(
        UUID,
        (
            "5b47d60f-6090-40b2-9f37-2a4de88f3063",  # msDS-KeyCredentialLink
            "3f78c3e5-f79a-46bd-a0b8-9d18116ddc79",  # msDS-AllowedToActOnBehalfOfOtherIdentity
            "4c164200-20c0-11d0-a768-00aa006e0529",  # User-Account-Restrictions, the property set that it is in
        ),
    )
)
_COMPUTER = UUID("bf967a86-0de6-11d0-a285-00aa003049e2")
# What makes an administrator of whoever may write it to administrators.
_OF_ADMINISTRATORS = _OF_COMPUTERS | set(
    map(
        UUID,
        (
            "bf9679c0-0de6-11d0-a285-00aa003049e2",  # member
            "bc0ac240-79a9-11d0-9020-00c04fc2d4cf",  # Membership, the property set that it is in
            "00fbf30c-91fe-11d1-aebc-0000f80367c1",  # altSecurityIdentities
            "f3a64788-5306-11d1-a9c5-0000f80367c1",  # servicePrincipalName
            "bf967a68-0de6-11d0-a285-00aa003049e2",  # userAccountControl
        ),
    )
)
_WRITING = AccessMask.WRITE_PROPERTY | AccessMask.SELF_WRITE

Holders = Mapping[bytes, str]
"""What each principal may do, by its SID: "may reset passwords in the domain"."""


def domain_owners(client: Client) -> Holders:
    """Who holds the domain now."""
    return _read_again(client).domain_owners


def unreadable_lists(client: Client) -> tuple[str, ...]:
    """Those of the two lists that the gateway's account may not read: whoever holds the domain by them is unknown."""
    return _read_again(client).unreadable


def holders_in(descriptor: SecurityDescriptor, *, of_administrators: bool) -> dict[bytes, str]:
    """Whom an access control list lets hold the domain; `of_administrators`: it is that of AdminSDHolder."""
    whose = "the domain's administrators" if of_administrators else "the domain"
    found: dict[bytes, str] = {}
    if descriptor.owner is not None and descriptor.owner.startswith(_OF_DIRECTORIES):
        found[text_to_sid(descriptor.owner)] = f"owns {whose}" if not of_administrators else "owns AdminSDHolder"
    for ace in descriptor.dacl.aces if descriptor.dacl is not None else ():
        if of_administrators and not ace.applies_here:
            continue  # an administrator gets it as it is, and nothing below one matters
        if ace.allows and ace.sid is not None and ace.sid.startswith(_OF_DIRECTORIES):
            for right in _rights(ace, of_administrators=of_administrators):
                found.setdefault(text_to_sid(ace.sid), f"may {right} {whose}")
    return found


def _rights(ace: Ace, *, of_administrators: bool) -> Iterator[str]:
    """The rights in an entry by which the domain is held, in words.

    Wherever it applies: what computers inherit from the domain's head, domain controllers do too, and what groups
    inherit, those do that give rights.
    """
    mask = map_generic(ace.mask)
    if mask & AccessMask.WRITE_DACL:
        yield "change the access control of"
    if mask & AccessMask.WRITE_OWNER:
        yield "take ownership of"
    if mask & AccessMask.CONTROL_ACCESS:
        if ace.object_type is None:
            yield "reset passwords and replicate the secrets of"
        elif ace.object_type in _EXTENDED_RIGHTS:
            yield _EXTENDED_RIGHTS[ace.object_type]
    if mask & AccessMask.WRITE_PROPERTY and ace.object_type is None:
        yield "write every attribute of"
    is_of_computers = ace.object_type in _OF_COMPUTERS and ace.inherited_object_type in (None, _COMPUTER)
    if mask & AccessMask.WRITE_PROPERTY and is_of_computers:
        yield "take over the computers of"
    if of_administrators and mask & _WRITING and (ace.object_type is None or ace.object_type in _OF_ADMINISTRATORS):
        yield "write what makes administrators of"


_Marks = tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """The owners as of one state of the objects that decide."""

    marks: _Marks
    domain_owners: Holders
    unreadable: tuple[str, ...]


_known: WeakKeyDictionary[Client, _Known] = WeakKeyDictionary()


def _read_again(client: Client) -> _Known:
    """What is known, read anew if one of the objects has changed that decide."""
    places, known = places_of(client), _known.get(client)
    marks = _marks(client, places)
    if known is None or known.marks != marks:
        known = _known[client] = _Known(marks, *_read_holders(client, places, known))
    return known


def _marks(client: Client, places: Places) -> _Marks:
    """Of each object what changes with it; another domain controller counts otherwise ([MS-ADTS] 3.1.1.1.9).

    The objects that decide are the domain's head, AdminSDHolder, and what this one may inherit from.
    """
    deciding = (places.domain, places.admin_sd_holder, places.system)
    state = client.find_any([Equals("distinguishedName", name) for name in deciding], _STATE_ATTRIBUTES)
    found = {entry.dn.lower(): tuple(entry.text(name) for name in _STATE_ATTRIBUTES) for entry in state}
    return tuple(found.get(name.lower(), ()) for name in deciding)


def _read_holders(client: Client, places: Places, known: _Known | None) -> tuple[Holders, tuple[str, ...]]:
    """Read the two lists.

    One that the gateway's account may not read leaves its holders unknown, for else nothing at all could be changed
    any more: everybody may read both by default, and nobody may keep the gateway from it who does not hold the domain.
    What was known of it stays so.
    """
    found: dict[bytes, str] = {}
    unreadable = []
    for name in (places.admin_sd_holder, places.domain):
        entry = client.find(name, (), descriptor=True)
        values = [] if entry is None else entry.values("nTSecurityDescriptor")
        try:
            descriptor = parse_descriptor(values[0]) if values else None
        except MalformedDescriptor:
            descriptor = None
        if descriptor is None:
            unreadable.append(name)
        else:
            found |= holders_in(descriptor, of_administrators=name == places.admin_sd_holder)
    if unreadable:
        if known is None or known.unreadable != tuple(unreadable):
            logger.warning("whoever holds the domain by access control is not known", unreadable=unreadable)
        found = {**(known.domain_owners if known is not None else {}), **found}
    return found, tuple(unreadable)
