"""What the gateway's own account needs in a directory for each of the gateway's permissions, and nothing more.

Reading needs nothing by default, for Authenticated Users may read; whether they may, `readable` looks. None of this
makes the account an administrator; what the gateway's roles permit is confined further by the gateway itself. What an
account has is found in `effective_rights`, the lines that grant what is missing are made in `grants`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from django.utils.translation import gettext_noop as _

from active_directory import DistinguishedName, InvalidValue


class Access(StrEnum):
    """The rights that occur ([MS-ADTS] 5.1.3.2), by the names that access control lists are shown with."""

    WRITE = "write-property"
    CREATE = "create-child"
    DELETE = "delete-child"
    EXTENDED = "control-access"


@dataclass(frozen=True, slots=True)
class Right:
    """One right: on the objects of a class below the managed part of the domain, or, without a class, on the domain.

    `name` is the attribute that is written, empty for those that are usually (`WRITTEN`), or the common name of the
    extended right. Children of the class are created and deleted in the base and in every container below it.
    """

    access: Access
    object_class: str | None
    name: str = ""


_CONTACT_DETAILS: Final = ("mail", "telephoneNumber", "mobile", "proxyAddresses")
_ADDRESS: Final = ("l", "st", "postalCode")
_PERSON: Final = (
    *("name", "cn", "displayName", "description", "givenName", "sn", "title", "department", "company", "manager"),
    *("info", *_CONTACT_DETAILS),
)

WRITTEN: Final[dict[str, tuple[str, ...]]] = {
    "user": (
        *(*_PERSON, "initials", "userPrincipalName", "sAMAccountName", "employeeID", "employeeNumber"),
        *("physicalDeliveryOfficeName", "wWWHomePage", "streetAddress", *_ADDRESS),
    ),
    "group": ("name", "cn", "displayName", "description", "sAMAccountName", "mail", "managedBy", "info", "groupType"),
    "computer": (
        *("name", "cn", "displayName", "description", "location", "managedBy"),
        *("sAMAccountName", "dNSHostName", "servicePrincipalName"),
    ),
    "organizationalUnit": ("name", "ou", "displayName", "description", "managedBy", "street", *_ADDRESS),
    "contact": _PERSON,
}
"""What is written of the objects of a class by whoever may update and rename them: what the console's forms have. All
others are left out of a delegation until the log shows that they are written."""


def _write(object_class: str, *attributes: str) -> tuple[Right, ...]:
    return tuple(Right(Access.WRITE, object_class, name) for name in attributes or ("",))


_ACCOUNTS: Final = ("user", "computer")
_KINDS: Final = {"user": "user", "group": "group", "computer": "computer", "organizationalunit": "organizationalUnit"}
_STATE: Final = tuple(Right(Access.WRITE, name, "userAccountControl") for name in _ACCOUNTS)
REANIMATION: Final = Right(Access.EXTENDED, None, "Reanimate-Tombstones")

NEEDED: Final[dict[str, tuple[Right, ...]]] = {
    **{f"directory.create_{kind}": (Right(Access.CREATE, name),) for kind, name in _KINDS.items()},
    **{f"directory.update_{kind}": _write(name) for kind, name in _KINDS.items()},
    **{f"directory.delete_{kind}": (Right(Access.DELETE, name),) for kind, name in _KINDS.items()},
    "directory.create_object": (Right(Access.CREATE, "contact"),),
    "directory.update_object": _write("contact"),
    "directory.delete_object": (Right(Access.DELETE, "contact"),),
    "directory.manage_membership": _write("group", "member"),
    "directory.enable_account": _STATE,
    "directory.disable_account": _STATE,
    "directory.run_accounts": _STATE,
    "directory.unlock_account": tuple(right for name in _ACCOUNTS for right in _write(name, "lockoutTime")),
    "directory.reset_password": (
        Right(Access.EXTENDED, "user", "User-Force-Change-Password"),
        *_write("user", "pwdLastSet", "lockoutTime"),
    ),
    # A move is a deletion here, a creation there, and a write of the name ([MS-ADTS] 3.1.1.5.4.1).
    "directory.move_object": tuple(
        right
        for name in ("user", "group", "computer")
        for right in (Right(Access.CREATE, name), Right(Access.DELETE, name), *_write(name, "name", "cn"))
    ),
    # [MS-ADTS] 3.1.1.5.3.7.1: reanimating asks for this extended right on the root of the naming context. What is made
    # of the object asks for creating its kind, besides.
    "directory.restore_deleted": (
        REANIMATION,
        *(right for name in WRITTEN for right in _write(name, "name", "ou" if name == "organizationalUnit" else "cn")),
    ),
}
"""By permission. Those that are not here need no right of their own, or none that could be delegated alone: reading,
what the gateway keeps to itself, and changing the protected objects, which an administrator's account alone may."""

DISPLAY_NAMES: Final = {
    "User-Force-Change-Password": "Reset Password",
    "Reanimate-Tombstones": "Reanimate Tombstones",
}
"""Extended rights as dsacls and the dialogues of Windows call them (displayName of the controlAccessRight)."""


@dataclass(frozen=True, slots=True)
class NeededRights:
    """A task that people think of as one, and the permissions of the gateway's that make it up. Pages translate it."""

    task: str
    permissions: tuple[str, ...]

    @property
    def rights(self) -> tuple[Right, ...]:
        """What the account needs for the task, each once."""
        return tuple(dict.fromkeys(right for name in self.permissions for right in NEEDED[name]))

    def commands(self, *, account: str, base_dn: str) -> list[str]:
        """The lines for an account (`CORP\\\\svc-gateway`) and the container that it is to manage."""
        return dsacls_lines(self.rights, account=account, base_dn=base_dn)


NEEDED_RIGHTS: Final = (
    NeededRights(
        _("Change users: their attributes, their names, whether they are enabled, unlocking"),
        (
            "directory.update_user",
            "directory.enable_account",
            "directory.disable_account",
            "directory.unlock_account",
            "directory.run_accounts",
        ),
    ),
    NeededRights(_("Reset passwords"), ("directory.reset_password",)),
    NeededRights(_("Create and delete users"), ("directory.create_user", "directory.delete_user")),
    NeededRights(_("Change members of groups"), ("directory.manage_membership",)),
    NeededRights(
        _("Create, change and delete groups"),
        ("directory.create_group", "directory.update_group", "directory.delete_group"),
    ),
    NeededRights(
        _("Create, change and delete computers"),
        ("directory.create_computer", "directory.update_computer", "directory.delete_computer"),
    ),
    NeededRights(
        _("Create, change and delete organizational units"),
        (
            "directory.create_organizationalunit",
            "directory.update_organizationalunit",
            "directory.delete_organizationalunit",
        ),
    ),
    NeededRights(_("Move users, groups and computers"), ("directory.move_object",)),
    NeededRights(_("Restore deleted objects (besides creating their kind)"), ("directory.restore_deleted",)),
)


def by_attribute(rights: Iterable[Right]) -> tuple[Right, ...]:
    """The same rights, each once, with one for each attribute that is written."""
    return tuple(
        dict.fromkeys(
            each
            for right in rights
            for each in (
                _write(right.object_class or "", *WRITTEN[right.object_class or ""])
                if right.access is Access.WRITE and not right.name
                else (right,)
            )
        )
    )


def holds_for_base(object_class: str | None, base_dn: str) -> bool:
    """Whether a right on the objects of a class is on the base, too: a unit that is managed is one of its units."""
    return object_class == "organizationalUnit" and base_dn[:3].upper() == "OU="


def dsacls_lines(rights: Iterable[Right], *, account: str, base_dn: str) -> list[str]:
    """Grants as `dsacls` takes them (`RIGHTS;WHAT;ON`): `/I:T` for a container and all below, `/I:S` for the objects
    below of the class that is named last. What is written of a class is one line.
    """
    lines: list[str] = []
    children: dict[str, str] = {}
    written: dict[str, list[str]] = {}
    for right in by_attribute(rights):
        if right.access in (Access.CREATE, Access.DELETE):
            letters = "CC" if right.access is Access.CREATE else "DC"
            children[right.object_class or ""] = children.get(right.object_class or "", "") + letters
        elif right.access is Access.WRITE:
            entry = f'"{account}:RPWP;{right.name};{right.object_class}"'
            written.setdefault(right.object_class or "", []).append(entry)
        elif right.object_class is None:
            name = DISPLAY_NAMES[right.name]
            lines.append(f'dsacls "{domain_of(base_dn)}" /G "{account}:CA;{name}"')
        else:
            name = DISPLAY_NAMES[right.name]
            lines.append(f'dsacls "{base_dn}" /I:S /G "{account}:CA;{name};{right.object_class}"')
    of_children = [
        f'dsacls "{base_dn}" /I:T /G "{account}:{letters};{object_class}"' for object_class, letters in children.items()
    ]
    of_attributes = []
    for object_class, entries in written.items():
        places = "T" if holds_for_base(object_class, base_dn) else "S"
        of_attributes.append(f'dsacls "{base_dn}" /I:{places} /G {" ".join(entries)}')
    return of_children + of_attributes + lines


def account_name(bind_name: str) -> str:
    """The account as `dsacls` takes it: `name@domain` or `DOMAIN\\name`. Of a distinguished name it is a guess, for
    an account need not be called in its domain as its object is.
    """
    if "=" not in bind_name:
        return bind_name
    try:
        name = DistinguishedName.parse(bind_name).rdn_value
    except InvalidValue:
        return bind_name
    return f"{name}@{'.'.join(part.partition('=')[2] for part in domain_of(bind_name).split(','))}"


def domain_of(dn: str) -> str:
    """The domain that a distinguished name is in: its DC parts, or the name itself where it has none."""
    try:
        name: DistinguishedName | None = DistinguishedName.parse(dn)
    except InvalidValue:
        return dn
    while name is not None and name.rdns and name.rdn_attribute.upper() != "DC":
        name = name.parent
    return str(name) if name is not None and name.rdns else dn
