"""Where the objects lie that govern the domain or the forest, and what is below them: a question of place alone.

Everything outside of the domain's own naming context (configuration, schema, the DNS zones in their application
partitions), everything below the domain's System container (policies, AdminSDHolder, password settings, trusts) and
everything among the domain controllers.
"""

from dataclasses import dataclass

from active_directory import Client, DistinguishedName, Entry, ProtocolError
from core.text.messages import message
from directory.lookup.kept import kept_by_client

# wellKnownObjects of the domain ([MS-ADTS] 6.1.1.4), which tells containers whatever they are called.
_SYSTEM = "AB1D30F3768811D1ADED00C04FD8D5CD"  # GUID_SYSTEMS_CONTAINER_W
_DOMAIN_CONTROLLERS = "A361B2FFFFD211D1AA4B00C04FD7D83A"  # GUID_DOMAIN_CONTROLLERS_CONTAINER_W
_FOR_EVERYBODY = (
    "A9D1CA15768811D1ADED00C04FD8D5CD",  # GUID_USERS_CONTAINER_W
    "AA312825768811D1ADED00C04FD8D5CD",  # GUID_COMPUTERS_CONTAINER_W
    "22B70C67D56E4EFB91E9300FCA3DC1AA",  # GUID_FOREIGNSECURITYPRINCIPALS_CONTAINER_W
    "AB8153B7768811D1ADED00C04FD8D5CD",  # GUID_LOSTANDFOUND_CONTAINER_W
)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one domain, none of which can be renamed or moved ([MS-ADTS] 6.1.1.4, systemFlags)."""

    domain_sid: bytes
    domain: str
    """The distinguished name of the domain's head."""
    system: str
    domain_controllers: str
    others: tuple[str, ...]
    """The heads of the other naming contexts: of the forest and of applications."""
    heads: frozenset[str]
    """The names of all places and of the domain's head, in lower case; and how names below the places end."""
    endings: tuple[str, ...]

    @property
    def admin_sd_holder(self) -> str:
        """The object whose access control list administrators get ([MS-ADTS] 3.1.1.6.1.1)."""
        return f"CN=AdminSDHolder,{self.system}"

    def contains(self, dn: str) -> bool:
        """Whether the object of this name governs the domain by its place: a place itself, or what lies in one."""
        lowered = dn.lower()
        return lowered in self.heads or lowered.endswith(self.endings)

    def contains_children_of(self, dn: str) -> bool:
        """The same of what is put into the container of this name. The domain's head is there for everybody."""
        return dn.lower() != self.domain.lower() and self.contains(dn)


@kept_by_client
def places_of(client: Client) -> Places:
    """The places of a client's domain, read once."""
    domain = client.default_naming_context
    head = client.read(domain, ("objectSid", "wellKnownObjects"))
    if "objectSid" not in head:
        raise ProtocolError("The domain's own SID cannot be read", attribute="objectSid")
    well_known = _well_known_objects(head)
    own = DistinguishedName.parse(domain)
    others = (name for name in client.naming_contexts if not own.is_within(DistinguishedName.parse(name)))
    # These two names are the same in every domain; the list is one that the account may not be able to read.
    system = well_known.get(_SYSTEM, f"CN=System,{domain}")
    domain_controllers = well_known.get(_DOMAIN_CONTROLLERS, f"OU=Domain Controllers,{domain}")
    contexts = (client.configuration_naming_context, client.schema_naming_context, *others)
    heads = [name.lower() for name in (system, domain_controllers, *contexts)]
    return Places(
        domain_sid=head.values("objectSid")[0],
        domain=domain,
        system=system,
        domain_controllers=domain_controllers,
        others=contexts,
        heads=frozenset((domain.lower(), *heads)),
        endings=tuple(f",{name}" for name in heads),
    )


def why_governing(client: Client, dn: str) -> str | None:
    """What place makes the object of this name govern, in words; None when it does not."""
    places, place = places_of(client), DistinguishedName.parse(dn)

    def is_within(name: str) -> bool:
        return place.is_within(DistinguishedName.parse(name))

    if not places.contains(dn):
        return None
    if is_within(client.configuration_naming_context):
        return message("a part of the forest's configuration")
    if any(is_within(name) for name in places.others):
        return message("a part of another naming context, such as the domain's DNS zones")
    if is_within(places.domain_controllers):
        return message("a part of the domain controllers' container")
    return (
        message("a part of the domain's System container") if is_within(places.system) else message("the domain itself")
    )


def is_for_everybody(client: Client, container: Entry) -> bool:
    """Whether a container that cannot be deleted is there for everybody's objects, such as that of new users."""
    domain = places_of(client).domain
    well_known = _well_known_objects(client.read(domain, ("wellKnownObjects",)))  # two of them can be redirected
    names = {domain, *(well_known[guid] for guid in _FOR_EVERYBODY if guid in well_known)}
    place = DistinguishedName.parse(container.dn)
    return any(place == DistinguishedName.parse(name) for name in names)


def _well_known_objects(head: Entry) -> dict[str, str]:
    """Distinguished names by the GUIDs under which they are known (the form is [MS-ADTS] 3.1.1.3.1.1.3's)."""
    found = (value.split(":", 3) for value in head.texts("wellKnownObjects"))
    return {guid.upper(): dn for _, _, guid, dn in found}
