"""The least rights that the gateway's own account needs in a directory for each of the gateway's permissions.

Reading needs none by default, because Authenticated Users may read. None of these rights makes the account an
administrator, and the gateway confines its callers further by their roles. `effective_rights` and `readable_parts` find
what an account has, and `grants` makes the lines that grant what is missing.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from django.utils.translation import gettext_noop as _


class Access(StrEnum):
    """Kinds of rights ([MS-ADTS] 5.1.3.2), by the names that access control lists are shown with."""

    WRITE = "write-property"
    CREATE = "create-child"
    DELETE = "delete-child"
    EXTENDED = "control-access"


@dataclass(frozen=True, slots=True)
class Right:
    """A right on the objects of a class below the managed part of the domain or, without a class, on the domain.

    `name` is the attribute to write (empty for all of `USUAL_ATTRIBUTES`), or the common name of the extended right.
    The right to create or delete is one on the base and every container below it.
    """

    access: Access
    object_class: str | None
    name: str = ""


_ADDRESS: Final = "l st postalCode"
_PERSON: Final = """
    name cn displayName description givenName sn title department company manager info
    mail telephoneNumber mobile proxyAddresses
"""

USUAL_ATTRIBUTES: Final = {
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
"""By class, the attributes that people usually write: those in the console's forms. A delegation leaves out all others
until the log shows that they are written."""


def write_rights(object_class: str, *attributes: str) -> tuple[Right, ...]:
    """The rights to write these attributes of a class; without any, the one right for all usual attributes."""
    return tuple(Right(Access.WRITE, object_class, name) for name in attributes or ("",))


_ACCOUNTS: Final = ("user", "computer")
_KINDS: Final = {"user": "user", "group": "group", "computer": "computer", "organizationalunit": "organizationalUnit"}
_STATE: Final = tuple(Right(Access.WRITE, name, "userAccountControl") for name in _ACCOUNTS)
REANIMATION: Final = Right(Access.EXTENDED, None, "Reanimate-Tombstones")

NEEDED: Final[dict[str, tuple[Right, ...]]] = {
    **{f"directory.create_{kind}": (Right(Access.CREATE, name),) for kind, name in _KINDS.items()},
    **{f"directory.update_{kind}": write_rights(name) for kind, name in _KINDS.items()},
    **{f"directory.delete_{kind}": (Right(Access.DELETE, name),) for kind, name in _KINDS.items()},
    "directory.create_object": (Right(Access.CREATE, "contact"),),
    "directory.update_object": write_rights("contact"),
    "directory.delete_object": (Right(Access.DELETE, "contact"),),
    "directory.manage_membership": write_rights("group", "member"),
    "directory.enable_account": _STATE,
    "directory.disable_account": _STATE,
    "directory.run_accounts": _STATE,
    "directory.unlock_account": tuple(right for name in _ACCOUNTS for right in write_rights(name, "lockoutTime")),
    "directory.reset_password": (
        Right(Access.EXTENDED, "user", "User-Force-Change-Password"),
        *write_rights("user", "pwdLastSet", "lockoutTime"),
    ),
    # A move is a deletion here, a creation there, and a write of the name ([MS-ADTS] 3.1.1.5.4.1).
    "directory.move_object": tuple(
        right
        for name in ("user", "group", "computer")
        for right in (Right(Access.CREATE, name), Right(Access.DELETE, name), *write_rights(name, "name", "cn"))
    ),
    # Reanimating needs this extended right on the root of the naming context, besides the right to create the object's
    # class ([MS-ADTS] 3.1.1.5.3.7.1).
    "directory.restore_deleted": (
        REANIMATION,
        *(
            right
            for name in USUAL_ATTRIBUTES
            for right in write_rights(name, "name", "ou" if name == "organizationalUnit" else "cn")
        ),
    ),
}
"""By permission. The others need no right in the directory (reading, and what the gateway keeps itself), or none that
can be delegated: only an administrator's account may change protected objects."""


@dataclass(frozen=True, slots=True)
class NeededRights:
    """A task as people think of it, and the gateway's permissions that make it up. Pages translate its name."""

    task: str
    permissions: tuple[str, ...]

    @property
    def rights(self) -> tuple[Right, ...]:
        """The rights that the account needs for the task, each once."""
        return tuple(dict.fromkeys(right for name in self.permissions for right in NEEDED[name]))


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
