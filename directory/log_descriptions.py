"""How the operations log describes directory connections, saved filters, change templates and membership rules."""

from collections.abc import Mapping
from typing import Any

from audit.model_changes.descriptions import Facts, audited_model, columns_of
from core.shapes import render_duration
from core.text.messages import message
from directory.models import ChangeTemplate, DirectoryConnection, MembershipRule
from directory.models.filters_and_templates import SavedFilter


def connection_access_widened(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """Why a change of a connection gives keys and people more access; nothing for a new one, which nobody uses yet."""
    if before is None or not after["enabled"]:
        return []
    changed = {name for name, value in after.items() if value != before[name]}
    reasons = {
        "the directory is enabled for all who are linked to it": {"enabled"},
        "other servers say who the people of the directory are, and hold what keys reach": {"servers", "authority"},
        "the connection reaches another part of the directory": {"base_dn"},
        "the connection acts with the rights of another account": {"bind_dn"},
    }
    return [reason for reason, causes in reasons.items() if causes & changed]


@audited_model(
    "directories",
    DirectoryConnection,
    one=message("a directory connection"),
    members=("clientId",),
    widened_access=connection_access_widened,
)
def describe_connection(row: DirectoryConnection) -> Facts:
    return Facts(
        name=row.name,
        shown={**columns_of(row), "clientId": row.client_id},
        access={
            "enabled": row.enabled,
            "servers": tuple(row.urls),
            "authority": row.ca_certificate,
            "base_dn": row.base_dn,
            "bind_dn": row.bind_dn,
        },
    )


@audited_model(
    "saved-filters",
    SavedFilter,
    one=message("a saved filter"),
    columns=("name", "kind", "filter", "scope", "attributes", "shared"),
    members=("directory", "owner", "base", "baseId"),
)
def describe_saved_filter(row: SavedFilter) -> Facts:
    return Facts(
        name=row.name,
        shown={
            **columns_of(row),
            "directory": row.connection.name,
            "owner": row.owner.username,
            "base": row.base_dn,
            "baseId": row.base_guid,
        },
    )


@audited_model(
    "change-templates",
    ChangeTemplate,
    one=message("a change template"),
    columns=("name", "occasion", "description", "leaves_others", "account"),
    members=("directory", "parent", "parentId", "joins", "leaves", "attributes"),
)
def describe_change_template(row: ChangeTemplate) -> Facts:
    values = ((name, value) for name, each in row.attributes.items() for value in each or ("",))
    return Facts(
        name=row.name,
        shown={
            **columns_of(row),
            "directory": row.connection.name,
            "parent": row.parent_dn,
            "parentId": row.parent_guid,
            "joins": [f"{group['distinguishedName']} ({group['id']})" for group in row.joins],
            "leaves": [f"{group['distinguishedName']} ({group['id']})" for group in row.leaves],
            "attributes": [f"{name}: {value}" for name, value in values],
        },
    )


def rule_access_widened(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """Why a change of a membership rule gives more access; nothing for a new one. None is a while without end."""
    if before is None:
        return []

    def is_longer(name: str) -> bool:
        known, now = before[name], after[name]
        return known is not None and (now is None or now > known)

    reasons = {
        message("members of the group may stay longer"): is_longer("longest") or is_longer("without_end"),
        message("members can be added without a reason"): before["reason"] and not after["reason"],
    }
    return [reason for reason, holds in reasons.items() if holds]


@audited_model(
    "membership-rules",
    MembershipRule,
    one=message("a membership rule"),
    columns=("reason_required",),
    members=("directory", "group", "groupId", "maxDuration", "defaultDuration"),
    widened_access=rule_access_widened,
    access_without={"longest": None, "without_end": None, "reason": False},
)
def describe_membership_rule(row: MembershipRule) -> Facts:
    longest, default = row.max_duration, row.default_duration
    return Facts(
        name=row.group_dn,
        shown={
            **columns_of(row),
            "directory": row.connection.name,
            "group": row.group_dn,
            "groupId": row.group_guid,
            "maxDuration": longest and render_duration(longest),
            "defaultDuration": default and render_duration(default),
        },
        access={
            "longest": longest and longest.total_seconds(),
            "without_end": default.total_seconds() if default else 0 if longest else None,
            "reason": row.reason_required,
        },
    )
