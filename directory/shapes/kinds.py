"""The kinds of directory objects, each declared once: labels, classes, default attributes, path.

A kind with a path of its own has `resource` and `condition` here, and a module in `operations.directory`. Searches,
batches, agent tools and console pages are made from these declarations.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from active_directory import ANYTHING, And, Entry, Equals, Filter, Not
from core.text.messages import Message, message


class Kind(StrEnum):
    """What an object is, by its most derived known class (inetOrgPerson is a user)."""

    USER = "user"
    GROUP = "group"
    COMPUTER = "computer"
    ORGANIZATIONAL_UNIT = "organizationalUnit"
    SERVICE_ACCOUNT = "serviceAccount"
    CONTACT = "contact"
    CONTAINER = "container"
    OBJECT = "object"


_NAMING: Final = frozenset({"displayName", "description"})


@dataclass(frozen=True, slots=True, kw_only=True)
class KindDeclaration:
    """The declaration of a kind.

    `singular`, `one` and `many` are what people call its objects: `user`, `a user`, `users`. Objects of one of the
    `classes` are of this kind. A record shows `attributes` when the caller names none. The permissions to create,
    update and delete an object end in `permission`.

    A kind with a path of its own has a `resource`, the name of the path and of its operations, which OpenAPI describes
    by `about`. A search there finds what matches `condition`, and `columns` are the default columns of a list. The path
    of `object` has the objects of every kind.
    """

    kind: Kind
    singular: Message
    one: Message
    many: Message
    classes: tuple[str, ...] = ()
    attributes: frozenset[str] = _NAMING
    permission: str = "object"
    has_account: bool = False
    resource: str = ""
    about: str = ""
    condition: Filter = ANYTHING
    columns: tuple[str, ...] = ("description",)

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of the objects that the resource has."""
        return frozenset(Kind if self.kind is Kind.OBJECT else {self.kind})

    @property
    def object_class(self) -> str | None:
        """The class of objects that are created there; None where the caller chooses it."""
        return next(iter(self.classes), None)

    def permissions(self, action: str) -> frozenset[str]:
        """The permissions of which a caller needs one to `create`, `update` or `delete` there at all.

        The kind of the object then decides which.
        """
        return frozenset(permission_for(action, kind) for kind in self.kinds)


# From the most derived class upwards: managed service accounts are computers, and computers are users ([MS-ADSC]).
KINDS: Final[dict[Kind, KindDeclaration]] = {
    declared.kind: declared
    for declared in (
        KindDeclaration(
            kind=Kind.SERVICE_ACCOUNT,
            singular=message("service account"),
            one=message("a service account"),
            many=message("service accounts"),
            classes=(
                "msDS-ManagedServiceAccount",
                "msDS-GroupManagedServiceAccount",
                "msDS-DelegatedManagedServiceAccount",
            ),
            attributes=_NAMING | {"dNSHostName", "servicePrincipalName", "managedBy"},
            has_account=True,
        ),
        KindDeclaration(
            kind=Kind.COMPUTER,
            singular=message("computer"),
            one=message("a computer"),
            many=message("computers"),
            classes=("computer",),
            attributes=_NAMING
            | {"dNSHostName", "location", "managedBy", "servicePrincipalName"}
            | {"operatingSystem", "operatingSystemVersion"},
            permission="computer",
            has_account=True,
            resource="computers",
            about="Computers of the directory.",
            # By category, and not by excluding the classes of service accounts: on Windows a filter on a class that the
            # schema lacks is undefined, as is its negation ([MS-ADTS] 3.1.1.3.1.3.1), so that nothing would match.
            condition=And(Equals("objectClass", "computer"), Equals("objectCategory", "computer")),
            columns=("dNSHostName", "operatingSystem", "location"),
        ),
        KindDeclaration(
            kind=Kind.USER,
            singular=message("user"),
            one=message("a user"),
            many=message("users"),
            classes=("user",),
            attributes=_NAMING
            | {"givenName", "sn", "initials", "mail", "telephoneNumber", "mobile", "title", "department", "company"}
            | {"employeeID", "employeeNumber", "manager", "physicalDeliveryOfficeName", "proxyAddresses"},
            permission="user",
            has_account=True,
            resource="users",
            about="Users of the directory, and their passwords.",
            condition=And(Equals("objectClass", "user"), Not(Equals("objectClass", "computer"))),
            columns=("sAMAccountName", "title", "department", "mail"),
        ),
        KindDeclaration(
            kind=Kind.GROUP,
            singular=message("group"),
            one=message("a group"),
            many=message("groups"),
            classes=("group",),
            attributes=_NAMING | {"mail", "managedBy", "sAMAccountName", "objectSid"},
            permission="group",
            resource="groups",
            about="Groups and their members.",
            condition=Equals("objectClass", "group"),
            columns=("sAMAccountName", "description", "managedBy"),
        ),
        KindDeclaration(
            kind=Kind.ORGANIZATIONAL_UNIT,
            singular=message("organizational unit"),
            one=message("an organizational unit"),
            many=message("organizational units"),
            classes=("organizationalUnit",),
            attributes=_NAMING | {"managedBy", "street", "l", "st", "postalCode", "c", "gPLink"},
            permission="organizationalunit",
            resource="organization-units",
            about="Organizational units, runs over their accounts, delegations.",
            condition=Equals("objectClass", "organizationalUnit"),
            columns=("description", "managedBy"),
        ),
        KindDeclaration(
            kind=Kind.CONTACT,
            singular=message("contact"),
            one=message("a contact"),
            many=message("contacts"),
            classes=("contact",),
            attributes=_NAMING | {"givenName", "sn", "mail", "telephoneNumber", "company", "proxyAddresses"},
            resource="contacts",
            about="Contacts: people outside, with addresses and without an account.",
            condition=Equals("objectClass", "contact"),
            columns=("mail", "telephoneNumber", "company"),
        ),
        KindDeclaration(
            kind=Kind.CONTAINER, singular=message("container"), one=message("a container"), many=message("containers")
        ),
        KindDeclaration(
            kind=Kind.OBJECT,
            singular=message("object"),
            one=message("an object"),
            many=message("objects"),
            resource="objects",
            about="Objects of any class: access control, history.",
        ),
    )
}

ACCOUNT_KINDS: Final = frozenset(kind for kind, declared in KINDS.items() if declared.has_account)

DEFAULT_ATTRIBUTES: Final = {kind: declared.attributes for kind, declared in KINDS.items()}
"""The attributes of a record when the caller names none, by kind."""


RESOURCES: Final = {KINDS[kind].resource: KINDS[kind] for kind in Kind if KINDS[kind].resource}
"""The kinds with a path of their own, by resource, in the order in which people read them."""

_KIND_OF_CLASS: Final = {name.lower(): kind for kind, declared in KINDS.items() for name in declared.classes}


def kind_of(object_classes: Iterable[str]) -> Kind:
    """The kind of an object with these values of objectClass, in the directory's order (the structural class last)."""
    names = [name.lower() for name in object_classes]
    for name, kind in _KIND_OF_CLASS.items():
        if name in names:
            return kind
    return Kind.CONTAINER if names and names[-1] == "container" else Kind.OBJECT


def kind_of_entry(entry: Entry) -> Kind:
    """The kind of an entry that was read with objectClass."""
    return _kind_of_values(tuple(entry.values("objectClass")))


@lru_cache(maxsize=1024)
def _kind_of_values(values: tuple[bytes, ...]) -> Kind:  # a directory has few combinations of classes
    return kind_of(value.decode("utf-8", "replace") for value in values)


def resource_of(kind: str | None) -> str:
    """The resource of a kind; `objects` for a kind without one of its own."""
    return next((name for name, declared in RESOURCES.items() if declared.kind == kind), "objects")


PERMISSION_SUFFIXES: Final = tuple(dict.fromkeys(KINDS[kind].permission for kind in Kind))
"""The endings of the permissions to create, update and delete objects."""


def permission_for(action: str, kind: Kind) -> str:
    """The permission to `create`, `update` or `delete` an object of a kind."""
    return f"directory.{action}_{KINDS[kind].permission}"
