"""What the gateway reads in a directory, and whether its own account may.

By default Authenticated Users may read nearly all of it; where *Pre-Windows 2000 Compatible Access* was emptied they
may not. The gateway does not notice by itself: what an account may not read looks as if it were not there ([MS-ADTS]
3.1.1.4.4). So attributes that every object has are read and looked for, and about the others, access control is asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, islice
from typing import Final

from active_directory import ANYTHING, AccessMask, And, Client, Entry, Equals, Not, Scope
from directory.security.effective_rights import EffectiveRights, applying

_SAMPLES: Final = 5
_LOOKED_AT: Final = 25
"""Of each class. Whoever delegates does so on containers, so that objects seldom differ."""
_MATCHING: Final = {"user": And(Equals("objectClass", "user"), Not(Equals("objectClass", "computer")))}
"""Computers are users too."""
_IN_ALL: Final = ("objectSid", "whenChanged", "replPropertyMetaData", "sAMAccountName")
_IN_EVERY: Final = {
    "user": (*_IN_ALL, "userAccountControl", "pwdLastSet", "primaryGroupID"),
    "group": (*_IN_ALL, "groupType"),
    "computer": (*_IN_ALL, "userAccountControl"),
    "organizationalUnit": ("whenChanged", "replPropertyMetaData"),
    "contact": ("whenChanged", "replPropertyMetaData"),
}
"""What no object of the class is without, so that one where it is missing may not be read."""
_IN_SOME: Final = {
    "user": (
        *("memberOf", "mail", "userPrincipalName", "manager", "lockoutTime", "accountExpires", "adminCount"),
        *("lastLogonTimestamp", "servicePrincipalName"),
    ),
    "group": ("member", "memberOf", "managedBy", "mail", "adminCount"),
    "computer": ("memberOf", "dNSHostName", "servicePrincipalName", "lastLogonTimestamp"),
    "organizationalUnit": ("gPLink", "managedBy"),
    "contact": ("memberOf", "mail"),
}
_LISTING: Final = ("list-children", "read-property")
_OF_THE_DOMAIN: Final = ("minPwdLength", "maxPwdAge", "lockoutThreshold", "lockoutDuration")


class Reading(StrEnum):
    """The parts of a directory that are read for different purposes."""

    OBJECTS = "objects"
    ACCESS_CONTROL = "access-control"
    DELETED_OBJECTS = "deleted-objects"
    PASSWORD_POLICIES = "password-policies"  # noqa: S105 - no password
    FINE_GRAINED = "fine-grained-policies"
    GROUP_POLICIES = "group-policies"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class Readable:
    """Whether a part can be read at its place: True, False, or None where it cannot be known.

    `without` are what is missing: attributes as `class: attribute`, or what of access control is not granted.
    """

    part: Reading
    place: str
    held: bool | None
    without: tuple[str, ...] = ()


def find_readable(effective: EffectiveRights) -> list[Readable]:
    """Every part, at the base or where the directory keeps it. Raises LdapError."""
    samples = _samples(effective)
    client = effective.client
    system = f"CN=System,{client.default_naming_context}"
    return [
        _objects(effective, samples),
        _access_control(effective, samples),
        _deleted_objects(client),
        _password_policies(client),
        # By default only administrators may read these ([MS-ADSC], msDS-PasswordSettingsContainer).
        _container(
            client, Reading.FINE_GRAINED, f"CN=Password Settings Container,{system}", "msDS-MinimumPasswordLength"
        ),
        # A policy that applies to few may be read by few, so single ones that are hidden say nothing.
        _container(client, Reading.GROUP_POLICIES, f"CN=Policies,{system}", None),
        _schema(client),
    ]


def _objects(effective: EffectiveRights, samples: Mapping[str, list[Entry]]) -> Readable:
    missing: list[str] = []
    is_unknown = not any(samples.values())
    for object_class, entries in samples.items():
        absent = {name for entry in entries for name in _IN_EVERY[object_class] if name not in entry}
        lists = [applying(entry) for entry in entries]
        is_unknown = is_unknown or None in lists
        refused = {
            name
            for aces in lists
            if aces is not None
            for name in _IN_SOME[object_class]
            if not effective.has(aces, AccessMask.READ_PROPERTY, effective.attribute_types(name))
        }
        missing += [f"{object_class}: {name}" for name in sorted(absent | refused)]
    held = False if missing else None if is_unknown else True
    return Readable(Reading.OBJECTS, effective.base.dn, held, tuple(missing))


def _access_control(effective: EffectiveRights, samples: Mapping[str, list[Entry]]) -> Readable:
    looked_at = [effective.base, *chain.from_iterable(samples.values())]
    is_hidden = any("nTSecurityDescriptor" not in entry for entry in looked_at)
    without = ("nTSecurityDescriptor",) if is_hidden else ()
    return Readable(Reading.ACCESS_CONTROL, effective.base.dn, not is_hidden, without)


def _deleted_objects(client: Client) -> Readable:
    """By default only administrators may list them, and nobody at all may read the container's access control list.

    Where no deleted object is seen there may be none.
    """
    place = f"CN=Deleted Objects,{client.default_naming_context}"
    if not _is_seen(client, place, deleted=True):
        return Readable(Reading.DELETED_OBJECTS, place, False, _LISTING)
    inside = client.search(place, Scope.ONE_LEVEL, ANYTHING, ("objectGUID",), deleted=True, limit=1, whole=True)
    return Readable(Reading.DELETED_OBJECTS, place, True if any(True for _ in inside) else None)


def _password_policies(client: Client) -> Readable:
    head = client.read(client.default_naming_context, _OF_THE_DOMAIN)
    missing = tuple(name for name in _OF_THE_DOMAIN if name not in head)
    return Readable(Reading.PASSWORD_POLICIES, head.dn, not missing, missing)


def _container(client: Client, part: Reading, place: str, always: str | None) -> Readable:
    """`always` is what every object in the container has."""
    if not _is_seen(client, place):
        return Readable(part, place, False, _LISTING)
    if always is not None:
        inside = client.search(place, Scope.ONE_LEVEL, ANYTHING, (always,), whole=True)
        if not all(always in entry for entry in inside):
            return Readable(part, place, False, (always,))
    return Readable(part, place, True)


def _is_seen(client: Client, place: str, *, deleted: bool = False) -> bool:
    """Whether an object can be read at all: it may be seen and yet not be read."""
    return "objectClass" in (client.find(place, ("objectClass",), deleted=deleted) or ())


def _schema(client: Client) -> Readable:
    """Attributes and classes, the names of extended rights, and whether there is a recycle bin."""
    configuration = client.configuration_naming_context
    places = (client.schema_naming_context, f"CN=Extended-Rights,{configuration}", f"CN=Partitions,{configuration}")
    hidden = [place for place in places if not _is_seen(client, place)]
    return Readable(Reading.SCHEMA, hidden[0] if hidden else configuration, not hidden, tuple(hidden))


def _samples(effective: EffectiveRights) -> dict[str, list[Entry]]:
    """Some objects of each class below the base, without those of administrators, which inherit no access control.

    These are told apart here and not by a filter: it would not match what may not be read.
    """
    found = {}
    for object_class, names in _IN_EVERY.items():
        each = effective.client.search(
            *(effective.base.dn, Scope.SUBTREE, _MATCHING.get(object_class, Equals("objectClass", object_class))),
            (*names, "adminCount", "isCriticalSystemObject"),
            limit=_LOOKED_AT,
            descriptor=True,
            whole=True,
        )
        ordinary = (it for it in each if it.text("adminCount") != "1" and not it.boolean("isCriticalSystemObject"))
        found[object_class] = list(islice(ordinary, _SAMPLES))
    return found
