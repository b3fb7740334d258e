"""Which parts of a directory the gateway's own account may read.

By default Authenticated Users may read nearly everything; where *Pre-Windows 2000 Compatible Access* was emptied they
may not. The gateway does not notice this by itself, because the directory answers as if what the account may not read
did not exist ([MS-ADTS] 3.1.1.4.4). So it looks for attributes that every object has, and evaluates access control for
others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Final

from active_directory import ANYTHING, AccessMask, Client, Entry, Scope
from directory.security.effective_rights import EffectiveRights, applicable_aces

_ON_PRINCIPALS: Final = "objectSid whenChanged replPropertyMetaData sAMAccountName"
_ALWAYS_PRESENT: Final = {
    "user": f"{_ON_PRINCIPALS} userAccountControl pwdLastSet primaryGroupID".split(),
    "group": f"{_ON_PRINCIPALS} groupType".split(),
    "computer": f"{_ON_PRINCIPALS} userAccountControl".split(),
    "organizationalUnit": ["whenChanged", "replPropertyMetaData"],
    "contact": ["whenChanged", "replPropertyMetaData"],
}
"""Attributes that every object of the class has: where one is missing, the account may not read it."""
_OFTEN_PRESENT: Final = {
    "user": """
        memberOf mail userPrincipalName manager lockoutTime accountExpires adminCount lastLogonTimestamp
        servicePrincipalName
    """.split(),
    "group": "member memberOf managedBy mail adminCount".split(),
    "computer": "memberOf dNSHostName servicePrincipalName lastLogonTimestamp".split(),
    "organizationalUnit": ["gPLink", "managedBy"],
    "contact": ["memberOf", "mail"],
}
_LISTING: Final = ("list-children", "read-property")
_DOMAIN_POLICY: Final = ("minPwdLength", "maxPwdAge", "lockoutThreshold", "lockoutDuration")


class DirectoryPart(StrEnum):
    """Parts of a directory with separate permissions to read them."""

    OBJECTS = "objects"
    ACCESS_CONTROL = "access-control"
    DELETED_OBJECTS = "deleted-objects"
    PASSWORD_POLICIES = "password-policies"  # noqa: S105 - no password
    FINE_GRAINED = "fine-grained-policies"
    GROUP_POLICIES = "group-policies"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class ReadCheck:
    """Whether the account may read a part of the directory, at `place`; `held` is None where it cannot be known.

    `without` is what it may not read: attributes as `class: attribute`, or the rights that are not granted.
    """

    part: DirectoryPart
    place: str
    held: bool | None
    without: tuple[str, ...] = ()


def check_readable_parts(effective: EffectiveRights) -> list[ReadCheck]:
    """Check every part, at the base or where the directory keeps it; raises LdapError."""
    samples = {name: effective.read_samples(name, attributes) for name, attributes in _ALWAYS_PRESENT.items()}
    client = effective.client
    system = f"CN=System,{client.default_naming_context}"
    return [
        _objects(effective, samples),
        _access_control(effective, samples),
        _deleted_objects(client),
        _password_policies(client),
        # By default only administrators may read these ([MS-ADSC], msDS-PasswordSettingsContainer).
        _container(
            client, DirectoryPart.FINE_GRAINED, f"CN=Password Settings Container,{system}", "msDS-MinimumPasswordLength"
        ),
        # A group policy that applies to few may be readable for few, so single hidden policies prove nothing.
        _container(client, DirectoryPart.GROUP_POLICIES, f"CN=Policies,{system}", None),
        _schema(client),
    ]


def _objects(effective: EffectiveRights, samples: Mapping[str, list[Entry]]) -> ReadCheck:
    missing: list[str] = []
    is_unknown = not any(samples.values())
    for object_class, entries in samples.items():
        absent = {name for entry in entries for name in _ALWAYS_PRESENT[object_class] if name not in entry}
        lists = [applicable_aces(entry) for entry in entries]
        is_unknown = is_unknown or None in lists
        refused = {
            name
            for aces in lists
            if aces is not None
            for name in _OFTEN_PRESENT[object_class]
            if not effective.is_granted(aces, AccessMask.READ_PROPERTY, effective.object_types_of(name))
        }
        missing += [f"{object_class}: {name}" for name in sorted(absent | refused)]
    held = False if missing else None if is_unknown else True
    return ReadCheck(DirectoryPart.OBJECTS, effective.base.dn, held, tuple(missing))


def _access_control(effective: EffectiveRights, samples: Mapping[str, list[Entry]]) -> ReadCheck:
    looked_at = [effective.base, *chain.from_iterable(samples.values())]
    is_hidden = any("nTSecurityDescriptor" not in entry for entry in looked_at)
    without = ("nTSecurityDescriptor",) if is_hidden else ()
    return ReadCheck(DirectoryPart.ACCESS_CONTROL, effective.base.dn, not is_hidden, without)


def _deleted_objects(client: Client) -> ReadCheck:
    """By default only administrators may list deleted objects, and nobody may read the container's DACL.

    Not known where the container looks empty: there may be no deleted objects.
    """
    place = f"CN=Deleted Objects,{client.default_naming_context}"
    if not _is_seen(client, place, deleted=True):
        return ReadCheck(DirectoryPart.DELETED_OBJECTS, place, False, _LISTING)
    inside = client.search(place, Scope.ONE_LEVEL, ANYTHING, ("objectGUID",), deleted=True, limit=1, whole=True)
    return ReadCheck(DirectoryPart.DELETED_OBJECTS, place, True if any(True for _ in inside) else None)


def _password_policies(client: Client) -> ReadCheck:
    head = client.read(client.default_naming_context, _DOMAIN_POLICY)
    missing = tuple(name for name in _DOMAIN_POLICY if name not in head)
    return ReadCheck(DirectoryPart.PASSWORD_POLICIES, head.dn, not missing, missing)


def _container(client: Client, part: DirectoryPart, place: str, always: str | None) -> ReadCheck:
    """Check a container, and whether all objects in it show the attribute `always`, which each of them has."""
    if not _is_seen(client, place):
        return ReadCheck(part, place, False, _LISTING)
    if always is not None:
        inside = client.search(place, Scope.ONE_LEVEL, ANYTHING, (always,), whole=True)
        if not all(always in entry for entry in inside):
            return ReadCheck(part, place, False, (always,))
    return ReadCheck(part, place, True)


def _is_seen(client: Client, place: str, *, deleted: bool = False) -> bool:
    """Whether an object can be read, not only listed."""
    return "objectClass" in (client.find(place, ("objectClass",), deleted=deleted) or ())


def _schema(client: Client) -> ReadCheck:
    """Check the schema, the names of extended rights, and where the recycle bin is enabled."""
    configuration = client.configuration_naming_context
    places = (client.schema_naming_context, f"CN=Extended-Rights,{configuration}", f"CN=Partitions,{configuration}")
    hidden = [place for place in places if not _is_seen(client, place)]
    return ReadCheck(DirectoryPart.SCHEMA, hidden[0] if hidden else configuration, not hidden, tuple(hidden))
