"""Permission groups, which all their members hold. Members are changed on each person (`people.update`)."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.db.models.functions import Lower
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from core.call import Call
from core.database import own_rows
from core.database.own_rows import with_version
from core.errors import Conflict, Forbidden, invalid_member
from core.operation import administration, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Guid, Id, PartialUpdate, example
from core.text.messages import message
from core.text.names import require_label
from directory.models import DirectoryConnection
from keys.models.people import confines_members, keep_scopes, kept_scopes
from keys.people.directory_groups import find_security_group, set_directory_groups
from keys.permission_catalogue import APPS
from keys.permissions.scopes import find_scopes_now, resolve_scopes
from operations.access.permissions import (
    ScopeRecord,
    Scopes,
    ScopesRecord,
    acts_as_superuser,
    find_granted,
    names_of,
    scope_names,
    scope_records,
)

_SHOWN = ("permissions__content_type", "user_set", "directory_groups__connection")

Name = Annotated[str, Field(min_length=1, max_length=150), AfterValidator(require_label)]
Permissions = Annotated[list[str], Field(max_length=200, description="`app.codename` each.")]


class GivenDirectoryGroup(Body):
    """A security group of a directory, whose members will belong to the permission group."""

    directory: Guid
    group: Annotated[str, Field(min_length=1, max_length=1000, description="Distinguished name or objectGUID.")]


DirectoryGroups = Annotated[
    list[GivenDirectoryGroup],
    Field(max_length=50, description="Groups of directories; their members, nested ones too, are in this group."),
]


class DirectoryGroupRecord(TypedDict):
    """`id` is the objectGUID, `distinguishedName` the name last known."""

    directory: Id
    directoryName: str
    id: Id
    distinguishedName: str


class CreateGroupOfPermissions(Body):
    """A new group. Its `scopes` confine whatever its members do."""

    model_config = example(name="Help desk", permissions=["directory.read_object", "directory.unlock_account"])

    name: Name
    permissions: Permissions = []
    scopes: Scopes = []
    directory_groups: DirectoryGroups = []


class UpdateGroupOfPermissions(CreateGroupOfPermissions, PartialUpdate):
    """The members to change. New `permissions` count for all people in the group from their next request on."""


class PermissionGroupRecord(TypedDict):
    """`members` are the user names of the people in the group. `scopes` are the last known names of what confines
    them, and `scopeObjects` the objects themselves.
    """

    id: Id
    version: str
    name: str
    permissions: list[str]
    members: list[str]
    scopes: list[str]
    scopeObjects: list[ScopeRecord]
    directoryGroups: list[DirectoryGroupRecord]


@rest_operation(
    "permission-groups.search", "GET permission-groups", "Search permission groups", permission="keys.view_person"
)
def search_permission_groups(call: Call, *, query: PageQuery) -> Page[PermissionGroupRecord]:
    """List the permission groups by name."""
    groups = _groups().annotate(lower_name=Lower("name"))
    return page_of(call, groups, query=query, order=("lower_name", "id"), render=_record)


@rest_operation(
    "permission-groups.read", "GET permission-groups/{id}", "Read {a permission group}", permission="keys.view_person"
)
def read_permission_group(_: Call, *, id: UUID) -> PermissionGroupRecord:
    """Read one permission group."""
    return _record(_find(id))


@rest_operation(
    "permission-groups.read-scopes",
    "GET permission-groups/{id}/scopes",
    "Read the scopes of {a permission group}",
    permission="keys.view_person",
)
def read_group_scopes(_: Call, *, id: UUID) -> ScopesRecord:
    """Read the scopes of a permission group, with the names that their objects have now."""
    return {"items": find_scopes_now(kept_scopes(_find(id)))}


@administration(
    "permission-groups.create",
    "POST permission-groups",
    "Create {a permission group}",
    permission="keys.change_person",
    creates=True,
)
def create_permission_group(call: Call, *, body: CreateGroupOfPermissions) -> PermissionGroupRecord:
    """Create a permission group. Only superusers can: it gives its permissions to whoever joins it later."""
    _require_superuser(call)
    return _save(call, Group(), dict(body))


@administration(
    "permission-groups.update",
    "PATCH permission-groups/{id}",
    "Update {a permission group}",
    permission="keys.change_person",
)
def update_permission_group(call: Call, *, id: UUID, body: UpdateGroupOfPermissions) -> PermissionGroupRecord:
    """Change a permission group, for all of its members at once. Only superusers can."""
    _require_superuser(call)
    return _save(call, _find(id), body.sent_values())


@administration(
    "permission-groups.delete",
    "DELETE permission-groups/{id}",
    "Delete {a permission group}",
    permission="keys.change_person",
)
def delete_permission_group(call: Call, *, id: UUID) -> None:
    """Delete a permission group; its members lose what it gave them. Only superusers can.

    409 for a group that confines its members: take each of them out first, which may give them more access.
    """
    _require_superuser(call)
    group = _find(id)
    if confines_members(group):
        raise Conflict(message("The group confines its members. Take them out of it first: they may do more then."))
    group.delete()


def _require_superuser(call: Call) -> None:
    if not acts_as_superuser(call):
        raise Forbidden


def _resolve_groups(given: Sequence[GivenDirectoryGroup]) -> dict[tuple[UUID, UUID], str]:
    """The present names of the given groups, by connection and objectGUID.

    Raises InvalidRequest naming one that is no security group of its directory, Unavailable if that does not answer.
    """
    found: dict[tuple[UUID, UUID], str] = {}
    for index, item in enumerate(given):
        connection = DirectoryConnection.objects.filter(pk=item.directory).first()
        if connection is None:
            raise invalid_member(f"directoryGroups/{index}/directory", message("there is no such directory"))
        entry = find_security_group(connection, item.group.strip())
        if entry is None:
            raise invalid_member(
                f"directoryGroups/{index}/group",
                message("{group} is no security group of the directory", group=item.group),
            )
        found[connection.id, entry.guid] = entry.dn
    return found


def _groups() -> QuerySet[Group]:
    return Group.objects.select_related("confinement").prefetch_related(*_SHOWN)


def _find(id: UUID) -> Group:
    # Django's groups have integer keys, which answers show as UUIDs. PostgreSQL refuses to compare with larger ones.
    return own_rows.find(_groups(), pk=id.int if id.int < 2**31 else None)


def _save(call: Call, group: Group, given: dict[str, Any]) -> PermissionGroupRecord:
    """Set the given members of a group and save it; raises Conflict for a name that is taken."""
    names, scopes, mapped = (given.get(name) for name in ("permissions", "scopes", "directory_groups"))
    permissions = None if names is None else find_granted(call, names, only_grantable=False)
    kept = None if scopes is None else resolve_scopes(scopes)
    directory_groups = None if mapped is None else _resolve_groups(mapped)
    if "name" in given:
        group.name = given["name"]
        own_rows.save(group, taken=f"There is a group called {group.name} already.")
    if permissions is not None:
        others = group.permissions.exclude(content_type__app_label__in=APPS)  # Django's own
        group.permissions.set([*permissions, *others])
    if kept is not None:
        keep_scopes(group, kept)
    if directory_groups is not None:
        set_directory_groups(group, directory_groups)
    return _record(_find(UUID(int=group.pk)))


def _record(group: Any) -> PermissionGroupRecord:
    scopes = kept_scopes(group)
    record: PermissionGroupRecord = {
        "id": str(UUID(int=group.pk)),
        "version": "",
        "name": group.name,
        "permissions": names_of(group.permissions.all()),
        "members": sorted(person.username for person in group.user_set.all()),
        "scopes": scope_names(scopes),
        "scopeObjects": scope_records(scopes),
        "directoryGroups": [
            {
                "directory": str(item.connection_id),
                "directoryName": item.connection.name,
                "id": str(item.object_guid),
                "distinguishedName": item.distinguished_name,
            }
            for item in group.directory_groups.all()
        ],
    }
    return with_version(record)
