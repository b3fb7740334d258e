"""What permissions mean and which roles may have, by the table of the same name, and presets of them.

The texts are English, as operations and documents give them; pages translate them and keep this order.
`keys.permissions.effective` decides which permissions a caller holds.
"""

import tomllib
from dataclasses import dataclass
from fnmatch import filter as matching
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Permission
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Concat

from core.text.vocabulary import declare_texts


@dataclass(frozen=True, slots=True)
class Meaning:
    """The words for a permission; `danger` is empty for most."""

    group: str
    title: str
    text: str
    danger: str = ""


MEANINGS = {
    name: Meaning(group, *words)
    for group, permissions in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
    for name, words in permissions.items()
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


_PRESETS = Path(__file__).with_name("permission_presets.toml")
PRESETS = tuple(
    Preset(name, title, text, frozenset(each for held in names.split() for each in matching(MEANINGS, held) or [held]))
    for name, (title, text, names) in tomllib.loads(_PRESETS.read_text("utf-8")).items()
)
declare_texts(text for preset in PRESETS for text in (preset.title, preset.text))

FOR_ROLES = tuple(preset for preset in PRESETS if preset.name != "administrator")
"""Without the administrator: keys cannot administer the gateway, so that such a role could only read."""


def find_preset(name: str) -> Preset | None:
    """The preset with that name, if any."""
    return next((preset for preset in PRESETS if preset.name == name), None)
