"""What an agent can be let do: few scopes, each a set of permissions and a sentence. One table; nothing else decides.

What protects an object, confidential attributes, approving and the gateway's own tables are in no scope: no agent gets
to these, whoever it acts for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_noop as _

from directory.shapes.kinds import PERMISSION_SUFFIXES


@dataclass(frozen=True, slots=True)
class Scope:
    """`title` and `meaning` are for the person who is to consent; the page translates them. Of `waits`, a person
    decides at the usual level.
    """

    title: str
    meaning: str
    permissions: frozenset[str]
    waits: bool = False


def _each(action: str) -> frozenset[str]:
    return frozenset(f"directory.{action}_{kind}" for kind in PERMISSION_SUFFIXES)


SCOPES: Final[dict[str, Scope]] = {
    "read": Scope(
        _("Read the directory"),
        _(
            "Search and read users, groups, computers, units and everything else, with their attributes, members, "
            "access control and history, and what is in the recycle bin."
        ),
        frozenset({"directory.read_object", "directory.read_deleted", "directory.read_acl", "audit.read_log"}),
    ),
    "change": Scope(
        _("Change attributes, rename and move"),
        _("Change attributes of objects, rename them, and move them to other units."),
        _each("update") | {"directory.move_object"},
    ),
    "accounts": Scope(
        _("Enable, disable and unlock accounts"),
        _("Let accounts be used again, and keep them from being used. Lock-outs are ended at once."),
        frozenset({"directory.enable_account", "directory.disable_account", "directory.unlock_account"}),
        waits=True,
    ),
    "membership": Scope(
        _("Change who is in a group"),
        _("Add members to groups and remove them, and with it what the groups give access to."),
        frozenset({"directory.manage_membership"}),
        waits=True,
    ),
    "passwords": Scope(
        _("Reset passwords"),
        _("Give accounts new passwords. Whoever resets a password can sign in as that person."),
        frozenset({"directory.reset_password"}),
        waits=True,
    ),
    "create": Scope(_("Create objects"), _("Make users, groups, computers, units and other objects."), _each("create")),
    "delete": Scope(
        _("Delete objects"), _("Delete users, groups, computers, units and other objects."), _each("delete"), waits=True
    ),
    "restore": Scope(
        _("Restore deleted objects"),
        _("Bring objects back from the recycle bin, with their memberships as far as they are known."),
        frozenset({"directory.restore_deleted", "directory.read_deleted"}),
        waits=True,
    ),
    "runs": Scope(
        _("Enable or disable the accounts of a whole unit"),
        _(
            "Do it to up to a hundred accounts of a unit at once, where single accounts may be enabled or disabled, "
            "too."
        ),
        frozenset({"directory.run_accounts"}),
        waits=True,
    ),
}

LEAST: Final = "read"
"""What an agent asks for that names no scope."""


def known(names: Iterable[str]) -> list[str]:
    """Those of these scopes that there are, in the order of the table."""
    wanted = set(names)
    return [name for name in SCOPES if name in wanted]


def permissions_of(names: Iterable[str]) -> frozenset[str]:
    """The permissions that scopes mean; unknown ones mean none."""
    return frozenset(permission for name in known(names) for permission in SCOPES[name].permissions)


def usable(held: frozenset[str]) -> list[str]:
    """The scopes in which somebody who holds these permissions could let an agent do anything."""
    return [name for name, scope in SCOPES.items() if scope.permissions & held]
