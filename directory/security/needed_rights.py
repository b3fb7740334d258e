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


_ADDRESS: Final = "l st postalCode"
_PERSON: Final = """
    name cn displayName description givenName sn title department company manager info
    mail telephoneNumber mobile proxyAddresses
"""

WRITTEN: Final = {
    object_class: tuple(names.split())
    for object_class, names in {
        "user": f"""
            {_PERSON} initials userPrincipalName sAMAccountName employeeID employeeNumber
            physicalDeliveryOfficeName wWWHomePage streetAddress {_ADDRESS}
        """,
        "group": "name cn displayName description sAMAccountName mail managedBy info groupType",
        "computer": """
            name cn displayName description location managedBy sAMAccountName dNSHostName servicePrincipalName
        """,
        "organizationalUnit": f"name ou displayName description managedBy street {_ADDRESS}",
        "contact": _PERSON,
    }.items()
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


NEEDED_RIGHTS: Final = tuple(
    NeededRights(task, tuple(f"directory.{name}" for name in names.split()))
    for task, names in (
        (
            _("Change users: their attributes, their names, whether they are enabled, unlocking"),
            "update_user enable_account disable_account unlock_account run_accounts",
        ),
        (_("Reset passwords"), "reset_password"),
        (_("Create and delete users"), "create_user delete_user"),
        (_("Change members of groups"), "manage_membership"),
        (_("Create, change and delete groups"), "create_group update_group delete_group"),
        (_("Create, change and delete computers"), "create_computer update_computer delete_computer"),
        (
            _("Create, change and delete organizational units"),
            "create_organizationalunit update_organizationalunit delete_organizationalunit",
        ),
        (_("Move users, groups and computers"), "move_object"),
        (_("Restore deleted objects (besides creating their kind)"), "restore_deleted"),
    )
)


def by_attribute(rights: Iterable[Right]) -> tuple[Right, ...]:
    """The same rights, each once, with one for each attribute that is written."""
    every: list[Right] = []
    for right in rights:
        usual = WRITTEN[right.object_class or ""] if right.access is Access.WRITE and not right.name else None
        every += (right,) if usual is None else _write(right.object_class or "", *usual)
    return tuple(dict.fromkeys(every))


def holds_for_base(object_class: str | None, base_dn: str) -> bool:
    """Whether a right on the objects of a class is on the base, too: a unit that is managed is one of its units."""
    return object_class == "organizationalUnit" and base_dn[:3].upper() == "OU="


def dsacls_lines(rights: Iterable[Right], *, account: str, base_dn: str) -> list[str]:
    """Grants as `dsacls` takes them (`RIGHTS;WHAT;ON`): `/I:T` for a container and all below, `/I:S` for the objects
    below of the class that is named last. What is written of a class is one line.
    """
    extended: list[str] = []
    children: dict[str, str] = {}
    written: dict[str, list[str]] = {}
    for right in by_attribute(rights):
        object_class = right.object_class or ""
        match right.access:
            case Access.CREATE | Access.DELETE:
                letters = "CC" if right.access is Access.CREATE else "DC"
                children[object_class] = children.get(object_class, "") + letters
            case Access.WRITE:
                written.setdefault(object_class, []).append(f'"{account}:RPWP;{right.name};{object_class}"')
            case Access.EXTENDED:
                place = f'"{base_dn}" /I:S' if object_class else f'"{domain_of(base_dn)}"'
                below = f";{object_class}" if object_class else ""
                extended.append(f'dsacls {place} /G "{account}:CA;{DISPLAY_NAMES[right.name]}{below}"')
    of_children = [
        f'dsacls "{base_dn}" /I:T /G "{account}:{letters};{object_class}"' for object_class, letters in children.items()
    ]
    of_attributes = [
        f'dsacls "{base_dn}" /I:{"T" if holds_for_base(object_class, base_dn) else "S"} /G {" ".join(entries)}'
        for object_class, entries in written.items()
    ]
    return of_children + of_attributes + extended


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
        return str(DistinguishedName.parse(dn).domain) or dn
    except InvalidValue:
        return dn
