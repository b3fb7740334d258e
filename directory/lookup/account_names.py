"""Finds objects by the names that people sign in with, where a caller has no objectGUID."""

from typing import Final
from uuid import UUID

from active_directory import DistinguishedName, Equals, InvalidValue, Or, Scope
from core.call import Call
from directory import errors
from directory.lookup.access import client_of, find_object, is_within_any, scope_bases

_NAMES: Final = ("sAMAccountName", "userPrincipalName")
_MAX_FOUND: Final = 100
MAX_NAME_LENGTH: Final = 16_384
"""That of a distinguished name; the others are shorter."""


def is_distinguished_name(name: str) -> bool:
    """Whether a name is one of LDAP, with at least one RDN."""
    try:
        return bool(DistinguishedName.parse(name).rdns)
    except InvalidValue:
        return False


def find_by_name(call: Call, name: str) -> UUID:
    """The objectGUID of the object with this distinguished name, sAMAccountName or userPrincipalName.

    A computer is found with or without the `$` at the end of its sAMAccountName. Raises ObjectNotFound, also for what
    is outside the caller's scopes, ObjectAmbiguous if several have the name, and for distinguished names as
    `find_object`.
    """
    if is_distinguished_name(name):
        return find_object(call, DistinguishedName.parse(name)).guid
    client, bases = client_of(call), scope_bases(call)
    # A name with a `$` is another one: an exact match decides before it is tried.
    for condition in (Or(*(Equals(attribute, name) for attribute in _NAMES)), Equals(_NAMES[0], f"{name}$")):
        found = client.search(client.settings.base_dn, Scope.SUBTREE, condition, ("objectGUID",), limit=_MAX_FOUND)
        guids = [entry.guid for entry in found if bases is None or is_within_any(entry.dn, bases)]
        if len(guids) > 1:
            raise errors.ObjectAmbiguous
        if guids:
            return guids[0]
    raise errors.ObjectNotFound
