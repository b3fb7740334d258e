"""The permissions a role may grant, and those a person may hold. What a caller holds now is `effective`'s matter."""

from typing import Any

from django.contrib.auth.models import Permission
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat

from directory.shapes.kinds import PERMISSION_SUFFIXES

_ON_DIRECTORY = (
    "read_object",
    *(f"{action}_{kind}" for kind in PERMISSION_SUFFIXES for action in ("create", "update", "delete")),
    "move_object",
    "manage_membership",
    "enable_account",
    "disable_account",
    "unlock_account",
    "reset_password",
    "change_password",
    "run_accounts",
    "read_deleted",
    "restore_deleted",
    "read_confidential",
    "read_acl",
    "run_savedfilter",
    "manage_savedfilter",
    "manage_protected",
)

GRANTABLE: frozenset[str] = frozenset(
    {f"directory.{codename}" for codename in _ON_DIRECTORY}
    | {"audit.read_log", "audit.revert_change", "approvals.decide_change"}
)
"""What the gateway's operations ask for. Django's own add/change/delete of tables is not among them: managing
roles, keys and people is a person's, never an integration's."""

APPS = ("approvals", "audit", "directory", "keys")
"""The apps whose permissions mean something to the gateway's operations."""


def is_grantable() -> Q:
    """The condition on Django's permissions that leaves those a role may grant."""
    condition = Q()
    for app in APPS:
        codenames = [name.partition(".")[2] for name in GRANTABLE if name.startswith(f"{app}.")]
        condition |= Q(content_type__app_label=app, codename__in=codenames)
    return condition


def named(permissions: QuerySet[Permission]) -> QuerySet[Any]:
    """The same permissions with their `app.codename` as `full_name`."""
    return permissions.annotate(full_name=Concat(F("content_type__app_label"), Value("."), F("codename")))


def find_permissions(names: set[str]) -> dict[str, Permission]:
    """Django's permissions by `app.codename`, of the gateway's apps; unknown names are left out."""
    known = named(Permission.objects.filter(content_type__app_label__in=APPS).select_related("content_type"))
    return {permission.full_name: permission for permission in known if permission.full_name in names}
