"""All permissions in one table: group, title, explanation, and for some a danger. Presets combine them.

The texts are English, as operations and documents give them; pages translate them and keep this order.
`keys.permissions.effective` decides which permissions a caller holds.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Permission
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat
from django.utils.translation import gettext_noop as _


@dataclass(frozen=True, slots=True)
class Meaning:
    """The words for a permission; `danger` is a reason to think twice before granting it, empty for most."""

    group: str
    title: str
    text: str
    danger: str = ""


_CATALOGUE: dict[str, dict[str, tuple[str, ...]]] = {
    "Reading": {
        "directory.read_object": (
            "Read objects",
            "Read and search users, groups, computers, units and all else, with their attributes.",
        ),
        "directory.read_deleted": ("Read deleted objects", "See what is in the recycle bin."),
        "directory.read_confidential": (
            "Read confidential attributes",
            (
                "Read, search by and sort by what the directory's schema marks confidential. Reading objects is "
                "needed, too."
            ),
            "Such attributes may hold keys for disks, pins of badges and the like. Passwords stay unreadable.",
        ),
        "directory.read_acl": (
            "Read access control",
            "See who was given which rights on an object, and what was delegated.",
        ),
        "directory.run_savedfilter": (
            "Run saved filters",
            "Run own saved filters and shared ones. Reading objects is needed, too.",
        ),
        "directory.manage_savedfilter": (
            "Keep saved filters",
            "Save filters under a name, share them, change and delete the own ones.",
        ),
    },
    "Users": {
        "directory.create_user": (
            "Create users",
            "Make accounts, disabled ones. Enabling and passwords are permissions of their own.",
        ),
        "directory.update_user": ("Change users", "Change attributes of users, and rename them."),
        "directory.delete_user": (
            "Delete users",
            "Delete accounts.",
            "Without the recycle bin most of an account is lost for good.",
        ),
    },
    "Groups": {
        "directory.create_group": ("Create groups", "Make groups."),
        "directory.update_group": ("Change groups", "Change attributes, scope and type, and rename."),
        "directory.delete_group": (
            "Delete groups",
            "Delete groups.",
            "Everything that a group gave access to is lost to its members.",
        ),
        "directory.manage_membership": (
            "Change members",
            "Add members to groups and remove them.",
            "Whoever adds members gives them all that the group may do.",
        ),
    },
    "Computers": {
        "directory.create_computer": ("Create computers", "Make computer accounts."),
        "directory.update_computer": ("Change computers", "Change attributes of computers, and rename."),
        "directory.delete_computer": (
            "Delete computers",
            "Delete computer accounts.",
            "The machine falls out of the domain.",
        ),
    },
    "Organizational units": {
        "directory.create_organizationalunit": ("Create units", "Make organizational units."),
        "directory.update_organizationalunit": (
            "Change units",
            "Change attributes of units, the links to group policies among them, and rename.",
            "A policy that is linked reaches every computer and person below.",
        ),
        "directory.delete_organizationalunit": (
            "Delete units",
            "Delete organizational units. What is in them takes the permissions to delete it.",
            "A whole branch can go in one request.",
        ),
    },
    "Other objects": {
        "directory.create_object": ("Create others", "Make contacts, containers and any other class."),
        "directory.update_object": ("Change others", "Change attributes of objects of any other class."),
        "directory.delete_object": (
            "Delete others",
            "Delete objects of any other class.",
            "Services may depend on objects nobody knows.",
        ),
    },
    "Accounts": {
        "directory.enable_account": ("Enable accounts", "Let the accounts of users and computers be used again."),
        "directory.disable_account": (
            "Disable accounts",
            "Keep accounts from being used.",
            "People and services can no longer sign in.",
        ),
        "directory.unlock_account": ("Unlock accounts", "End a lock-out after wrong passwords."),
        "directory.reset_password": (
            "Reset passwords",
            "Give an account a new password without knowing the old one.",
            "Whoever resets a password can sign in as that person.",
        ),
        "directory.change_password": (
            "Change passwords",
            "Change a password with the current one, as people do themselves.",
        ),
        "directory.run_accounts": (
            "Run over a unit's accounts",
            "Enable or disable up to 100 accounts of a unit at once. The permission to do it to one is needed, too.",
            "One request reaches a hundred people.",
        ),
        "directory.manage_changetemplate": (
            "Keep templates",
            "Save, change and delete named lists of changes for who joins, moves or leaves.",
            "Others make the changes that a template lists, with permissions of their own.",
        ),
    },
    "Place and restoring": {
        "directory.move_object": (
            "Move objects",
            "Move objects to another place, where other policies and delegations hold.",
        ),
        "directory.restore_deleted": (
            "Restore deleted objects",
            "Bring deleted objects back, with their memberships as far as they are known.",
        ),
    },
    "Protection, log and approvals": {
        "directory.manage_protected": (
            "Change protected objects",
            "Change administrators, domain controllers and system objects, as far as other permissions allow it.",
            "Whoever changes an administrator's account can take over the domain.",
        ),
        "audit.read_log": ("Read the operations log", "See who did what and when, with values before and after."),
        "audit.revert_change": (
            "Revert changes",
            "Take a change back from its record. What the inverse change asks for is needed, too.",
        ),
        "approvals.decide_change": (
            "Decide on changes",
            "Approve and reject the changes of others that wait.",
            "An approved change is made, whatever the approver may do themselves.",
        ),
    },
    "The gateway: keys and roles": {
        "keys.view_role": ("See roles", "See roles, their permissions and scopes."),
        "keys.add_role": ("Create roles", "Make roles from permissions held oneself."),
        "keys.change_role": ("Change roles", "Change roles whose permissions one holds oneself, and their scopes."),
        "keys.delete_role": ("Delete roles", "Delete roles that no key has."),
        "keys.view_apikey": ("See API keys", "See keys, their use and what they may do; never their values."),
        "keys.add_apikey": ("Create API keys", "Make keys that act as oneself."),
        "keys.change_apikey": (
            "Change API keys",
            "Change, link and rotate own keys, and revoke any.",
            "Any integration can be stopped.",
        ),
        "keys.delete_apikey": ("Delete API keys", "Delete keys that are not in use."),
        "keys.view_agentgrant": ("See agents", "See which AI agents act for whom, and what they may do."),
        "keys.change_agentgrant": (
            "Supervise agents",
            "Decide which changes of an agent wait for a person, and end what agents may do.",
            "An agent at a freer level acts without anybody's looking.",
        ),
        "keys.view_agentclient": ("See agent clients", "See which programs people can connect."),
        "keys.add_agentclient": ("Register agent clients", "Make the clients that agents are connected as."),
        "keys.change_agentclient": ("Disable agent clients", "Keep a program from being connected, and let it again."),
        "keys.delete_agentclient": ("Delete agent clients", "Delete clients that nobody lets act."),
    },
    "The gateway: people": {
        "keys.view_person": ("See people", "See who signs in here, and what they may do."),
        "keys.add_person": ("Create local accounts", "Make accounts with permissions held oneself."),
        "keys.change_person": (
            "Change people",
            "Give permissions held oneself, set passwords, reset second factors, activate and deactivate.",
            "Whoever deactivates a person ends all their keys.",
        ),
        "keys.delete_person": ("Delete people", "Delete people who own no keys."),
    },
    "The gateway: connections and webhooks": {
        "directory.view_directoryconnection": (
            "See directory connections",
            "See servers and settings, and how the gateway is doing; never passwords.",
        ),
        "directory.add_directoryconnection": ("Create directory connections", "Connect further directories."),
        "directory.change_directoryconnection": (
            "Change directory connections",
            "Change, test, disable and enable connections.",
            "Disabling one stops every key that is linked to it.",
        ),
        "directory.rotate_bind_password": (
            "Rotate bind passwords",
            "Have the gateway give its account in a directory a new password that nobody knows.",
            "Whatever else signs in with that account stops working.",
        ),
        "directory.delete_directoryconnection": (
            "Delete directory connections",
            "Delete connections that nothing uses.",
        ),
        "approvals.view_changerequest": ("See change requests in the back office", "Look at all of them."),
        "audit.view_operationrecord": ("See log records in the back office", "Look at all of them."),
        "audit.view_webhookendpoint": ("See webhooks", "See where events are sent."),
        "audit.add_webhookendpoint": (
            "Create webhooks",
            "Have events sent to an address.",
            "Events tell of every change.",
        ),
        "audit.change_webhookendpoint": (
            "Change webhooks",
            "Send events elsewhere, or stop them.",
            "Events tell of every change.",
        ),
        "audit.delete_webhookendpoint": ("Delete webhooks", "Stop events for good."),
        "audit.view_webhookdelivery": ("See webhook deliveries", "See what was sent, and how it was answered."),
        "audit.change_webhookdelivery": ("Send webhooks again", "Repeat deliveries that failed."),
    },
}
"""By group: the title and the text of each permission, and the danger of some."""

MEANINGS = {
    name: Meaning(group, *words) for group, permissions in _CATALOGUE.items() for name, words in permissions.items()
}

GRANTABLE = frozenset(
    name
    for name, meaning in MEANINGS.items()
    if not meaning.group.startswith("The gateway") and name != "directory.manage_changetemplate"
)
"""The permissions that a role may have. Only people manage roles, keys, people, connections and templates."""

APPS = ("approvals", "audit", "directory", "keys")
"""The apps whose permissions the gateway's operations ask for. The rest are Django's own."""


def grantable_condition() -> Q:
    """The condition that selects those of Django's permissions that a role may have."""
    condition = Q()
    for app in APPS:
        codenames = [name.partition(".")[2] for name in GRANTABLE if name.startswith(f"{app}.")]
        condition |= Q(content_type__app_label=app, codename__in=codenames)
    return condition


def with_full_names(permissions: QuerySet[Permission]) -> QuerySet[Any]:
    """The same permissions with their `app.codename` as `full_name`."""
    return permissions.annotate(full_name=Concat(F("content_type__app_label"), Value("."), F("codename")))


def gateway_permissions(permissions: QuerySet[Permission]) -> QuerySet[Any]:
    """The permissions of the gateway's apps among these, with their `full_name`."""
    return with_full_names(permissions.filter(content_type__app_label__in=APPS))


def find_permissions(names: set[str]) -> dict[str, Permission]:
    """The permissions of the gateway's apps with these names, by `app.codename`; unknown names are left out."""
    known = gateway_permissions(Permission.objects.select_related("content_type"))
    return {permission.full_name: permission for permission in known if permission.full_name in names}


def names_by_key() -> dict[int, str]:
    """The `app.codename` of each permission of the gateway's apps, by its primary key, in one query."""
    return dict(gateway_permissions(Permission.objects.order_by()).values_list("pk", "full_name"))


_TO_READ = frozenset({"directory.read_object", "directory.run_savedfilter"})
_TO_CONNECT = frozenset(name for name in MEANINGS if name.endswith("_directoryconnection"))


@dataclass(frozen=True, slots=True)
class Preset:
    """A set of permissions for a purpose. A role gets those that roles may have. Pages translate the texts."""

    name: str
    title: str
    text: str
    permissions: frozenset[str]

    @property
    def for_role(self) -> frozenset[str]:
        """The permissions of a role for the same purpose."""
        return self.permissions & GRANTABLE


PRESETS = (
    Preset(
        "help-desk",
        _("Help desk"),
        _("Find people, unlock them, reset passwords, enable and disable accounts. No groups, nothing is deleted."),
        _TO_READ
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
        _TO_READ | {"approvals.decide_change", "approvals.view_changerequest", "audit.read_log"},
    ),
    Preset(
        "auditor",
        _("Auditor"),
        _("See everything and change nothing: the log, the directory, who was given what."),
        _TO_READ
        | {"directory.read_deleted", "directory.read_acl", "audit.read_log", "audit.view_operationrecord"}
        | {"approvals.view_changerequest", "keys.view_role", "keys.view_apikey", "keys.view_person"}
        | {"keys.view_agentgrant", "keys.view_agentclient", "directory.view_directoryconnection"},
    ),
    Preset(
        "administrator",
        _("Administrator"),
        _("Look after keys, roles, people, connections and agents. Decides on no changes and makes none."),
        frozenset(name for name in MEANINGS if name.startswith("keys."))
        | _TO_CONNECT
        | _TO_READ
        | {"audit.read_log", "audit.view_operationrecord", "approvals.view_changerequest"},
    ),
)


FOR_ROLES = tuple(preset for preset in PRESETS if preset.name != "administrator")
"""Without the administrator: keys cannot administer the gateway, so that such a role could only read."""


def find_preset(name: str) -> Preset | None:
    """The preset with that name, if any."""
    return next((preset for preset in PRESETS if preset.name == name), None)
