"""What people with usual jobs are given, so that nobody has to put it together from forty permissions.

A preset is a proposal of a form: it is not kept with whoever was given it, and giving it asks for what giving each of
its permissions asks for.
"""

from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext_noop as _

from keys.permission_catalogue import GRANTABLE, MEANINGS

_READING = frozenset({"directory.read_object", "directory.run_savedfilter"})
_CONNECTING = frozenset(name for name in MEANINGS if name.endswith("_directoryconnection"))


@dataclass(frozen=True, slots=True)
class Preset:
    """`permissions` are a person's; a role gets those of them that a role can give. Pages translate the texts."""

    name: str
    title: str
    text: str
    permissions: frozenset[str]

    @property
    def for_role(self) -> frozenset[str]:
        """The permissions of a role of the same purpose."""
        return self.permissions & GRANTABLE


PRESETS: Final = (
    Preset(
        "help-desk",
        _("Help desk"),
        _("Find people, unlock them, reset passwords, enable and disable accounts. No groups, nothing is deleted."),
        _READING
        | {
            "directory.unlock_account",
            "directory.reset_password",
            "directory.enable_account",
            "directory.disable_account",
        },
    ),
    Preset(
        "approver",
        _("Approver"),
        _("Look at what waits and at the objects concerned, decide, and see in the log what became of it."),
        _READING | {"approvals.decide_change", "approvals.view_changerequest", "audit.read_log"},
    ),
    Preset(
        "auditor",
        _("Auditor"),
        _("See everything and change nothing: the log, the directory, who was given what."),
        _READING
        | {"directory.read_deleted", "directory.read_acl", "audit.read_log", "audit.view_operationrecord"}
        | {"approvals.view_changerequest", "keys.view_role", "keys.view_apikey", "keys.view_person"}
        | {"keys.view_agentgrant", "keys.view_agentclient", "directory.view_directoryconnection"},
    ),
    Preset(
        "administrator",
        _("Administrator"),
        _("Look after keys, roles, people, connections and agents. Decides on no changes and makes none."),
        frozenset(name for name in MEANINGS if name.startswith("keys."))
        | _CONNECTING
        | _READING
        | {"audit.read_log", "audit.view_operationrecord", "approvals.view_changerequest"},
    ),
)


FOR_ROLES: Final = tuple(preset for preset in PRESETS if preset.name != "administrator")
"""A key administers nothing of the gateway, so a role of that purpose would only read."""


def find_preset(name: str) -> Preset | None:
    """The preset of that name, if there is one."""
    return next((preset for preset in PRESETS if preset.name == name), None)
