"""Directory connections, saved filters and templates of changes as the operations log tells of them."""

from dataclasses import dataclass

from audit.model_changes.descriptions import Facts, Secret, audited_model
from directory.models import ChangeTemplate, DirectoryConnection
from directory.models.saved_filters import SavedFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionAccess:
    """What everybody who is linked to a connection reaches by it, and as whom."""

    enabled: bool
    servers: tuple[str, ...]
    authority: str
    base_dn: str
    bind_dn: str


def connection_access_widened(before: ConnectionAccess | None, after: ConnectionAccess) -> list[str]:
    """In words, what keys and people reach after a change and could not reach before. Nobody uses a new one yet."""
    if before is None or not after.enabled:
        return []
    reasons = []
    if not before.enabled:
        reasons.append("the directory is enabled for all who are linked to it")
    if (before.servers, before.authority) != (after.servers, after.authority):
        reasons.append("other servers say who the people of the directory are, and hold what keys reach")
    if before.base_dn != after.base_dn:
        reasons.append("the connection reaches another part of the directory")
    if before.bind_dn != after.bind_dn:
        reasons.append("the connection acts with the rights of another account")
    return reasons


@audited_model("directories", DirectoryConnection, widened_access=connection_access_widened)
def describe_connection(row: DirectoryConnection) -> Facts:
    return Facts(
        name=row.name,
        shown={
            "name": (row.name,),
            "urls": tuple(row.urls),
            "baseDn": (row.base_dn,),
            "bindDn": (row.bind_dn,),
            "bindPassword": Secret(row.bind_password),
            "caCertificate": (row.ca_certificate,) if row.ca_certificate else (),
            "startTls": ("true" if row.start_tls else "false",),
            "enabled": ("true" if row.enabled else "false",),
            "clientId": (row.client_id,),
        },
        access=ConnectionAccess(
            enabled=row.enabled,
            servers=tuple(row.urls),
            authority=row.ca_certificate,
            base_dn=row.base_dn,
            bind_dn=row.bind_dn,
        ),
    )


@audited_model("saved-filters", SavedFilter)
def describe_saved_filter(row: SavedFilter) -> Facts:
    return Facts(
        name=row.name,
        shown={
            "name": (row.name,),
            "directory": (row.connection.name,),
            "owner": (row.owner.username,),
            "kind": (row.kind,),
            "filter": (row.filter,),
            "base": (row.base_dn,) if row.base_dn else (),
            "baseId": (str(row.base_guid),) if row.base_guid else (),
            "scope": (row.scope,),
            "attributes": tuple(row.attributes),
            "shared": ("true" if row.shared else "false",),
        },
    )


@audited_model("change-templates", ChangeTemplate)
def describe_change_template(row: ChangeTemplate) -> Facts:
    values = ((name, value) for name, each in row.attributes.items() for value in each or ("",))
    return Facts(
        name=row.name,
        shown={
            "name": (row.name,),
            "directory": (row.connection.name,),
            "occasion": (row.occasion,),
            "description": (row.description,) if row.description else (),
            "parent": (row.parent_dn,) if row.parent_dn else (),
            "parentId": (str(row.parent_guid),) if row.parent_guid else (),
            "joins": tuple(f"{group['distinguishedName']} ({group['id']})" for group in row.joins),
            "leaves": tuple(f"{group['distinguishedName']} ({group['id']})" for group in row.leaves),
            "leavesOthers": ("true" if row.leaves_others else "false",),
            "attributes": tuple(f"{name}: {value}" for name, value in values),
            "account": (row.account,),
        },
    )
