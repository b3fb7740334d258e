"""Groups of permissions: given together to all who are in them. Who is in one is said at each person."""

from typing import Annotated, Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Lower
from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from audit.administration.descriptions import find_own_table
from gateway.core.call import Call, Surface
from gateway.core.errors import Conflict, Forbidden, NotFound
from gateway.core.operation import Effect, operation
from gateway.core.paging import Page, PageQuery, page_of
from gateway.core.shapes import Body, Id, Part
from gateway.core.versions import version_of
from keys.models import Person
from keys.operations.granting import find_granted
from keys.people.names import require_label
from keys.permissions.assignable import APPS

_REST = frozenset({Surface.REST})
_EXAMPLE: dict[str, Any] = {"name": "Help desk", "permissions": ["directory.read_object", "directory.unlock_account"]}

Name = Annotated[str, Field(min_length=1, max_length=150), AfterValidator(require_label)]
Permissions = Annotated[list[str], Field(max_length=200, description="`app.codename` each.")]


class CreateGroupOfPermissions(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Name
    permissions: Permissions = Field(default_factory=list)


class UpdateGroupOfPermissions(Part):
    """What is to be different. `permissions` holds for all members from their next request on."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Name = ""
    permissions: Permissions = Field(default_factory=list)


class PermissionGroupRecord(TypedDict):
    """`members` are the user names of the people in it."""

    id: Id
    version: str
    name: str
    permissions: list[str]
    members: list[str]


@operation(
    "permission-groups.search",
    "GET permission-groups",
    permission="keys.view_person",
    query=PageQuery,
    output=Page[PermissionGroupRecord],
    surfaces=_REST,
)
def search_permission_groups(call: Call, *, query: PageQuery) -> Page[PermissionGroupRecord]:
    """List the groups of permissions by name."""
    groups = _groups().annotate(lower_name=Lower("name"))
    return page_of(call, groups, query=query, order=("lower_name", "id"), render=_record)


@operation(
    "permission-groups.read",
    "GET permission-groups/{id}",
    permission="keys.view_person",
    output=PermissionGroupRecord,
    surfaces=_REST,
)
def read_permission_group(_: Call, *, id: UUID) -> PermissionGroupRecord:
    """Read one group of permissions."""
    return _record(_find(id))


@operation(
    "permission-groups.create",
    "POST permission-groups",
    permission="keys.change_person",
    effect=Effect.ADMINISTER,
    creates=True,
    body=CreateGroupOfPermissions,
    output=PermissionGroupRecord,
    surfaces=_REST,
)
def create_permission_group(call: Call, *, body: CreateGroupOfPermissions) -> PermissionGroupRecord:
    """Create a group of permissions. Only superusers can: it gives its permissions to whoever joins it later."""
    _require_superuser(call)
    permissions = find_granted(call, body.permissions, only_grantable=False)
    group = Group(name=body.name)
    _save(group)
    group.permissions.set(permissions)
    return _record(_find(_id_of(group)))


@operation(
    "permission-groups.update",
    "PATCH permission-groups/{id}",
    permission="keys.change_person",
    effect=Effect.ADMINISTER,
    body=UpdateGroupOfPermissions,
    output=PermissionGroupRecord,
    surfaces=_REST,
)
def update_permission_group(call: Call, *, id: UUID, body: UpdateGroupOfPermissions) -> PermissionGroupRecord:
    """Change a group of permissions, for all of its members at once. Only superusers can."""
    _require_superuser(call)
    group = _find(id)
    if "name" in body.model_fields_set:
        group.name = body.name
        _save(group)
    if "permissions" in body.model_fields_set:
        others = group.permissions.exclude(content_type__app_label__in=APPS)  # Django's own
        group.permissions.set([*find_granted(call, body.permissions, only_grantable=False), *others])
    return _record(_find(id))


@operation(
    "permission-groups.delete",
    "DELETE permission-groups/{id}",
    permission="keys.change_person",
    effect=Effect.ADMINISTER,
    surfaces=_REST,
)
def delete_permission_group(call: Call, *, id: UUID) -> None:
    """Delete a group of permissions; its members lose what it gave them. Only superusers can."""
    _require_superuser(call)
    _find(id).delete()


def _require_superuser(call: Call) -> None:
    if not Person.objects.filter(pk=call.person.id, is_active=True, is_superuser=True).exists():
        raise Forbidden


def _groups() -> QuerySet[Group]:
    return Group.objects.prefetch_related("permissions__content_type", "user_set")


def _find(id: UUID) -> Group:
    group = _groups().filter(pk=id.int).first() if id.int < 2**31 else None
    if group is None:
        raise NotFound
    return group


def _id_of(group: Group) -> UUID:
    return find_own_table("permission-groups").id_of(group)


def _save(group: Group) -> None:
    try:
        with transaction.atomic():
            group.save()
    except IntegrityError:
        raise Conflict(f"There is a group called {group.name} already.") from None


def _record(group: Any) -> PermissionGroupRecord:
    record: PermissionGroupRecord = {
        "id": str(_id_of(group)),
        "version": "",
        "name": group.name,
        "permissions": sorted(
            f"{item.content_type.app_label}.{item.codename}"
            for item in group.permissions.all()
            if item.content_type.app_label in APPS
        ),
        "members": sorted(person.username for person in group.user_set.all()),
    }
    record["version"] = version_of({name: value for name, value in record.items() if name != "version"})
    return record
