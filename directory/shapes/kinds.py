"""The kinds of directory objects: which classes they are, which path and which permissions are theirs.

What a record of a kind holds is in `record`; nothing here talks to a directory.
"""

from collections.abc import Iterable
from enum import StrEnum

from directory.ldap import ANYTHING, And, Equals, Filter, Not


class Kind(StrEnum):
    """What an object is, as told by its most derived known class (inetOrgPerson is a user)."""

    USER = "user"
    GROUP = "group"
    COMPUTER = "computer"
    ORGANIZATIONAL_UNIT = "organizationalUnit"
    SERVICE_ACCOUNT = "serviceAccount"
    CONTACT = "contact"
    CONTAINER = "container"
    OBJECT = "object"


ACCOUNT_KINDS = frozenset({Kind.USER, Kind.COMPUTER, Kind.SERVICE_ACCOUNT})

# From the most derived class upwards: managed service accounts are computers, and computers are users (MS-ADSC).
_SERVICE_ACCOUNT_CLASSES = frozenset(
    {"msds-managedserviceaccount", "msds-groupmanagedserviceaccount", "msds-delegatedmanagedserviceaccount"}
)
_KIND_OF_CLASS = (
    *((name, Kind.SERVICE_ACCOUNT) for name in sorted(_SERVICE_ACCOUNT_CLASSES)),
    ("computer", Kind.COMPUTER),
    ("user", Kind.USER),
    ("group", Kind.GROUP),
    ("organizationalunit", Kind.ORGANIZATIONAL_UNIT),
    ("contact", Kind.CONTACT),
)

KINDS_OF_RESOURCE: dict[str, frozenset[Kind]] = {
    "users": frozenset({Kind.USER}),
    "groups": frozenset({Kind.GROUP}),
    "computers": frozenset({Kind.COMPUTER}),
    "organization-units": frozenset({Kind.ORGANIZATIONAL_UNIT}),
    "objects": frozenset(Kind),
}
"""Which kinds the objects under a path may be of."""

FILTER_OF_RESOURCE: dict[str, Filter] = {
    "users": And(Equals("objectClass", "user"), Not(Equals("objectClass", "computer"))),
    "groups": Equals("objectClass", "group"),
    # By category, not by leaving out the classes of service accounts: Windows has no answer to `objectClass` of a class
    # that its schema does not know, nor to the negation of that ([MS-ADTS] 3.1.1.3.1.3.1), and so would find nothing.
    "computers": And(Equals("objectClass", "computer"), Equals("objectCategory", "computer")),
    "organization-units": Equals("objectClass", "organizationalUnit"),
    "objects": ANYTHING,
}
"""What a search under a path is confined to."""

_PERMISSION_SUFFIX = {
    Kind.USER: "user",
    Kind.GROUP: "group",
    Kind.COMPUTER: "computer",
    Kind.ORGANIZATIONAL_UNIT: "organizationalunit",
}


def kind_of(object_classes: Iterable[str]) -> Kind:
    """The kind of an object with these values of objectClass (in the directory's order: the structural one last)."""
    names = [name.lower() for name in object_classes]
    for name, kind in _KIND_OF_CLASS:
        if name in names:
            return kind
    return Kind.CONTAINER if names and names[-1] == "container" else Kind.OBJECT


def permission_for(action: str, kind: Kind) -> str:
    """The permission to `create`, `update` or `delete` an object of a kind; kinds without their own count as object."""
    return f"directory.{action}_{_PERMISSION_SUFFIX.get(kind, 'object')}"


def permissions_for_any(action: str) -> frozenset[str]:
    """The permissions of which one admits to a path that holds every kind; the object's own kind decides then."""
    return frozenset(permission_for(action, kind) for kind in Kind)


_NAMING = frozenset({"displayName", "description"})
DEFAULT_ATTRIBUTES: dict[Kind, frozenset[str]] = {
    Kind.USER: _NAMING
    | {"givenName", "sn", "initials", "mail", "telephoneNumber", "mobile", "title", "department", "company"}
    | {"employeeID", "employeeNumber", "manager", "physicalDeliveryOfficeName", "proxyAddresses"},
    Kind.GROUP: _NAMING | {"mail", "managedBy", "sAMAccountName", "objectSid"},
    Kind.COMPUTER: _NAMING
    | {"dNSHostName", "location", "managedBy", "operatingSystem", "operatingSystemVersion", "servicePrincipalName"},
    Kind.ORGANIZATIONAL_UNIT: _NAMING | {"managedBy", "street", "l", "st", "postalCode", "c", "gPLink"},
    Kind.SERVICE_ACCOUNT: _NAMING | {"dNSHostName", "servicePrincipalName", "managedBy"},
    Kind.CONTACT: _NAMING | {"givenName", "sn", "mail", "telephoneNumber", "company", "proxyAddresses"},
    Kind.CONTAINER: _NAMING,
    Kind.OBJECT: _NAMING,
}
"""The attributes of a record when the caller names none: a useful set per kind."""
