"""The scopes that an agent can ask for: each is a set of permissions with words for the consent page.

No scope has protected objects, confidential attributes, approvals or the gateway's own tables: no agent gets to these,
whoever it acts for.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from core.text.vocabulary import declare_texts
from directory.shapes.kinds import PERMISSION_SUFFIXES


@dataclass(frozen=True, slots=True)
class Scope:
    """`title` and `meaning` are for the person who consents; the page translates them. At the default level, a person
    decides changes of a scope that `waits`. A scope without permissions is for what everybody may do.
    """

    title: str
    meaning: str
    permissions: frozenset[str]
    waits: bool = False


def _for_each_kind(action: str) -> frozenset[str]:
    return frozenset(f"directory.{action}_{kind}" for kind in PERMISSION_SUFFIXES)


SCOPES = {
    "read": Scope(
        "Read the directory",
        (
            "Search and read users, groups, computers, units and everything else, with their attributes, members, "
            "access control and history, and what is in the recycle bin."
        ),
        frozenset({"directory.read_object", "directory.read_deleted", "directory.read_acl", "audit.read_log"}),
    ),
    "change": Scope(
        "Change attributes, rename and move",
        "Change attributes of objects, rename them, and move them to other units.",
        _for_each_kind("update") | {"directory.move_object"},
    ),
    "accounts": Scope(
        "Enable, disable and unlock accounts",
        "Let accounts be used again, and keep them from being used. Lock-outs are ended at once.",
        frozenset({"directory.enable_account", "directory.disable_account", "directory.unlock_account"}),
        waits=True,
    ),
    "membership": Scope(
        "Change who is in a group",
        "Add members to groups and remove them, and with it what the groups give access to.",
        frozenset({"directory.manage_membership"}),
        waits=True,
    ),
    "passwords": Scope(
        "Reset passwords",
        "Give accounts new passwords. Whoever resets a password can sign in as that person.",
        frozenset({"directory.reset_password"}),
        waits=True,
    ),
    "create": Scope(
        "Create objects", "Make users, groups, computers, units and other objects.", _for_each_kind("create")
    ),
    "delete": Scope(
        "Delete objects",
        "Delete users, groups, computers, units and other objects.",
        _for_each_kind("delete"),
        waits=True,
    ),
    "restore": Scope(
        "Restore deleted objects",
        "Bring objects back from the recycle bin, with their memberships as far as they are known.",
        frozenset({"directory.restore_deleted", "directory.read_deleted"}),
        waits=True,
    ),
    "runs": Scope(
        "Enable or disable the accounts of a whole unit",
        ("Do it to up to a hundred accounts of a unit at once, where single accounts may be enabled or disabled, too."),
        frozenset({"directory.run_accounts"}),
        waits=True,
    ),
    "requests": Scope(
        "Withdraw your other change requests",
        (
            "Withdraw what you have asked for by keys or other agents and nobody has decided yet. What it has asked "
            "for itself, it may withdraw in any case."
        ),
        frozenset(),
    ),
}
declare_texts(text for scope in SCOPES.values() for text in (scope.title, scope.meaning))

WITHDRAW_ALL = "requests"

DEFAULT_SCOPE = "read"
"""The scope of an agent that asks for none."""


def known_scopes(names: Iterable[str]) -> list[str]:
    """The existing scopes among these names, in the order of SCOPES."""
    wanted = set(names)
    return [name for name in SCOPES if name in wanted]


def permissions_of(names: Iterable[str]) -> frozenset[str]:
    """The permissions of these scopes; unknown names have none."""
    return frozenset(permission for name in known_scopes(names) for permission in SCOPES[name].permissions)


def usable_scopes(held: frozenset[str]) -> list[str]:
    """The scopes that would allow an agent anything on behalf of somebody with these permissions."""
    return [name for name, scope in SCOPES.items() if not scope.permissions or scope.permissions & held]


def missing_scopes(granted: Collection[str], permissions: Collection[str]) -> list[str]:
    """The scopes besides those granted that bring any of the permissions."""
    return [
        name for name, scope in SCOPES.items() if name not in granted and not scope.permissions.isdisjoint(permissions)
    ]
