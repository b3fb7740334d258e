"""Objects that govern the domain or the forest by their location, and principals that own it by access control.

By location: everything outside the domain's own naming context (configuration, schema, DNS zones in application
partitions), everything below the domain's System container (policies, AdminSDHolder, password settings, trusts), and
everything in the Domain Controllers unit.

By access control: every principal with an entry in the DACL of the domain's head, which objects below it inherit, or of
AdminSDHolder, which is put on every administrator ([MS-ADTS] 3.1.1.6.1). Entries that deny are ignored: what they take
away depends on their order and on everybody's groups.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

import structlog

from active_directory import (
    AccessMask,
    Ace,
    Client,
    DistinguishedName,
    Entry,
    Equals,
    ProtocolError,
    SecurityDescriptor,
    descriptor_in,
    map_generic,
    text_to_sid,
)
from core.text.messages import message
from directory.lookup.connection import cached_per_client

logger = structlog.get_logger(__name__)

# wellKnownObjects identifies these containers of the domain, whatever they are called ([MS-ADTS] 6.1.1.4).
_SYSTEM = "AB1D30F3768811D1ADED00C04FD8D5CD"  # GUID_SYSTEMS_CONTAINER_W
_DOMAIN_CONTROLLERS = "A361B2FFFFD211D1AA4B00C04FD7D83A"  # GUID_DOMAIN_CONTROLLERS_CONTAINER_W
_DEFAULT_CONTAINERS = (
    "A9D1CA15768811D1ADED00C04FD8D5CD",  # GUID_USERS_CONTAINER_W
    "AA312825768811D1ADED00C04FD8D5CD",  # GUID_COMPUTERS_CONTAINER_W
    "22B70C67D56E4EFB91E9300FCA3DC1AA",  # GUID_FOREIGNSECURITYPRINCIPALS_CONTAINER_W
    "AB8153B7768811D1ADED00C04FD8D5CD",  # GUID_LOSTANDFOUND_CONTAINER_W
)


@dataclass(frozen=True, slots=True)
class CriticalContainers:
    """The containers of a domain whose contents govern it or the forest.

    They can be read once, because none of them can be renamed or moved ([MS-ADTS] 6.1.1.4, systemFlags).
    """

    domain_sid: bytes
    domain: str
    """The distinguished name of the domain's head."""
    system: str
    domain_controllers: str
    others: tuple[str, ...]
    """The heads of the other naming contexts: of the forest and of applications."""
    heads: frozenset[str]
    """The names of all these containers and of the domain's head, in lower case."""
    endings: tuple[str, ...]
    """How the names of objects in these containers end, in lower case."""

    @property
    def admin_sd_holder(self) -> str:
        """The object whose DACL is put on every administrator ([MS-ADTS] 3.1.1.6.1.1)."""
        return f"CN=AdminSDHolder,{self.system}"

    def contains(self, dn: str) -> bool:
        """Whether the object of this name is one of these containers or the domain's head, or lies in a container."""
        lowered = dn.lower()
        return lowered in self.heads or lowered.endswith(self.endings)

    def contains_children_of(self, dn: str) -> bool:
        """The same for an object put below this name. Objects directly below the domain's head govern nothing."""
        return dn.lower() != self.domain.lower() and self.contains(dn)


@cached_per_client
def critical_containers(client: Client) -> CriticalContainers:
    """The critical containers of a client's domain, read once."""
    domain = client.default_naming_context
    head = client.read(domain, ("objectSid", "wellKnownObjects"))
    if "objectSid" not in head:
        raise ProtocolError("The domain's own SID cannot be read", attribute="objectSid")
    well_known = _well_known_objects(head)
    own = DistinguishedName.parse(domain)
    others = (name for name in client.naming_contexts if not own.is_within(DistinguishedName.parse(name)))
    # The account may not be able to read wellKnownObjects, but these two names are the same in every domain.
    system = well_known.get(_SYSTEM, f"CN=System,{domain}")
    domain_controllers = well_known.get(_DOMAIN_CONTROLLERS, f"OU=Domain Controllers,{domain}")
    contexts = (client.configuration_naming_context, client.schema_naming_context, *others)
    heads = [name.lower() for name in (system, domain_controllers, *contexts)]
    return CriticalContainers(
        domain_sid=head.values("objectSid")[0],
        domain=domain,
        system=system,
        domain_controllers=domain_controllers,
        others=contexts,
        heads=frozenset((domain.lower(), *heads)),
        endings=tuple(f",{name}" for name in heads),
    )


def critical_container_reason(client: Client, dn: str) -> str | None:
    """Why the location of this object makes it govern the domain or the forest; None where it does not."""
    containers, parsed = critical_containers(client), DistinguishedName.parse(dn)

    def is_within(name: str) -> bool:
        return parsed.is_within(DistinguishedName.parse(name))

    if not containers.contains(dn):
        return None
    if is_within(client.configuration_naming_context):
        return message("a part of the forest's configuration")
    if any(is_within(name) for name in containers.others):
        return message("a part of another naming context, such as the domain's DNS zones")
    if is_within(containers.domain_controllers):
        return message("a part of the domain controllers' container")
    if is_within(containers.system):
        return message("a part of the domain's System container")
    return message("the domain itself")


def is_default_container(client: Client, container: Entry) -> bool:
    """Whether a container is a well-known one for ordinary objects, such as the default container of users."""
    domain = critical_containers(client).domain
    well_known = _well_known_objects(client.read(domain, ("wellKnownObjects",)))  # two of them can be redirected
    names = {domain, *(well_known[guid] for guid in _DEFAULT_CONTAINERS if guid in well_known)}
    parsed = DistinguishedName.parse(container.dn)
    return any(parsed == DistinguishedName.parse(name) for name in names)


def _well_known_objects(head: Entry) -> dict[str, str]:
    """Distinguished names by well-known GUID; the values have the syntax of [MS-ADTS] 3.1.1.3.1.1.3."""
    found = (value.split(":", 3) for value in head.texts("wellKnownObjects"))
    return {guid.upper(): dn for _, _, guid, dn in found}


_STATE_ATTRIBUTES = ("uSNChanged", "whenChanged")
"""They change whenever an object's DACL does."""

# Accounts and groups of domains, and built-in groups. Other principals, such as SYSTEM, are no objects to protect.
_CHANGEABLE_SID_PREFIXES = ("S-1-5-21-", "S-1-5-32-")

# Extended rights ([MS-ADTS] 5.1.3.2.1), by their rightsGuid.
_EXTENDED_RIGHTS = {
    UUID("1131f6ad-9c07-11d1-f79f-00c04fc2dcd2"): "replicate the secrets of",  # DS-Replication-Get-Changes-All
    UUID("89e95b76-444d-4c62-991a-0facbeda640c"): "replicate the secrets of",  # …-Get-Changes-In-Filtered-Set
    UUID("00299570-246d-11d0-a768-00aa006e0529"): "reset passwords in",  # User-Force-Change-Password
    UUID("9923a32a-3607-11d2-b9be-0000f87a36b2"): "add domain controllers to",  # DS-Install-Replica
    UUID("ba33815a-4f93-4c76-87f3-57574bff8109"): "give SID histories in",  # Migrate-SID-History
}
# schemaIDGUIDs, and rightsGuids of property sets. Anybody who may write these attributes of a computer can sign in to
# it as anybody else, and domain controllers are computers below the domain's head.
_COMPUTER_TAKEOVER = frozenset(
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
# Anybody who may write these attributes of administrators, or of their groups, can become one.
_ADMINISTRATOR_TAKEOVER = _COMPUTER_TAKEOVER | set(
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

OwnerRights = Mapping[bytes, str]
"""What each principal may do, by SID, such as "may reset passwords in the domain"."""


def domain_owners(client: Client) -> OwnerRights:
    """The principals that own the domain now by access control, and how."""
    return _current_owners(client).domain_owners


def unreadable_access_lists(client: Client) -> tuple[str, ...]:
    """The objects whose DACL the gateway's account may not read, so that owners of the domain are unknown."""
    return _current_owners(client).unreadable


def domain_owners_in(descriptor: SecurityDescriptor, *, is_admin_sd_holder: bool) -> dict[bytes, str]:
    """The owners of the domain by the descriptor of its head or, with `is_admin_sd_holder`, of AdminSDHolder."""
    whose = "the domain's administrators" if is_admin_sd_holder else "the domain"
    found: dict[bytes, str] = {}
    if descriptor.owner is not None and descriptor.owner.startswith(_CHANGEABLE_SID_PREFIXES):
        found[text_to_sid(descriptor.owner)] = f"owns {whose}" if not is_admin_sd_holder else "owns AdminSDHolder"
    for ace in descriptor.dacl.aces if descriptor.dacl is not None else ():
        if is_admin_sd_holder and not ace.applies_here:
            continue  # administrators get the DACL as it is, and objects below them do not matter
        if ace.allows and ace.sid is not None and ace.sid.startswith(_CHANGEABLE_SID_PREFIXES):
            for right in _domain_rights(ace, is_admin_sd_holder=is_admin_sd_holder):
                found.setdefault(text_to_sid(ace.sid), f"may {right} {whose}")
    return found


def _domain_rights(ace: Ace, *, is_admin_sd_holder: bool) -> Iterator[str]:
    """The rights in an entry that amount to owning the domain, in words.

    The class that the entry applies to does not matter: domain controllers inherit what computers inherit from the
    domain's head, and privileged groups what groups inherit.
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
    is_of_computers = ace.object_type in _COMPUTER_TAKEOVER and ace.inherited_object_type in (None, _COMPUTER)
    if mask & AccessMask.WRITE_PROPERTY and is_of_computers:
        yield "take over the computers of"
    if (
        is_admin_sd_holder
        and mask & _WRITING
        and (ace.object_type is None or ace.object_type in _ADMINISTRATOR_TAKEOVER)
    ):
        yield "write what makes administrators of"


_ChangeMarks = tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class _KnownOwners:
    """The owners as of one state of the deciding objects."""

    marks: _ChangeMarks
    domain_owners: OwnerRights
    unreadable: tuple[str, ...]


def _current_owners(client: Client) -> _KnownOwners:
    """The owners now. They are read again only if one of the deciding objects has changed."""
    containers, known = critical_containers(client), client.kept.get(_KnownOwners)
    marks = _change_marks(client, containers)
    if known is None or known.marks != marks:
        known = client.kept[_KnownOwners] = _KnownOwners(marks, *_read_owners(client, containers, known))
    return known


def _change_marks(client: Client, containers: CriticalContainers) -> _ChangeMarks:
    """The state of the deciding objects: the domain's head, AdminSDHolder, and System, which that one inherits from.

    uSNChanged alone would not do, because each domain controller counts for itself ([MS-ADTS] 3.1.1.1.9).
    """
    deciding = (containers.domain, containers.admin_sd_holder, containers.system)
    state = client.find_any([Equals("distinguishedName", name) for name in deciding], _STATE_ATTRIBUTES)
    found = {entry.dn.lower(): tuple(entry.text(name) for name in _STATE_ATTRIBUTES) for entry in state}
    return tuple(found.get(name.lower(), ()) for name in deciding)


def _read_owners(
    client: Client, containers: CriticalContainers, known: _KnownOwners | None
) -> tuple[OwnerRights, tuple[str, ...]]:
    """Read the two DACLs.

    If the gateway's account may not read one, its owners stay as they were last known: to refuse would block all
    changes. By default everybody may read both, and only owners of the domain can take that right away.
    """
    found: dict[bytes, str] = {}
    unreadable = []
    for name in (containers.admin_sd_holder, containers.domain):
        entry = client.find(name, (), descriptor=True)
        descriptor = None if entry is None else descriptor_in(entry)
        if descriptor is None:
            unreadable.append(name)
        else:
            found |= domain_owners_in(descriptor, is_admin_sd_holder=name == containers.admin_sd_holder)
    if unreadable:
        if known is None or known.unreadable != tuple(unreadable):
            logger.warning("whoever holds the domain by access control is not known", unreadable=unreadable)
        found = {**(known.domain_owners if known is not None else {}), **found}
    return found, tuple(unreadable)
