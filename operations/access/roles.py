"""Roles: what an API key may do, and where."""

from typing import Annotated, Any
from uuid import UUID

from django.db.models import Count, QuerySet
from django.db.models.functions import Lower
from pydantic import Field
from typing_extensions import TypedDict

from core.call import Call
from core.database import own_rows
from core.database.own_rows import with_version
from core.operation import administration, rest_operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Id, Moment, PartialUpdate, as_record, example
from core.text.messages import message
from keys.api_keys import Name
from keys.models import Role
from keys.permissions.scopes import find_scopes_now, resolve_scopes
from operations.access.permissions import (
    Permissions,
    ScopeRecord,
    Scopes,
    ScopesRecord,
    find_granted,
    names_of,
    require_held,
    scope_names,
    scope_records,
)

Description = Annotated[str, Field(max_length=2000)]


class SearchRoles(PageQuery):
    """The filter of the list."""

    name: str | None = Field(None, description="A part of the name, in any case.")


class CreateRole(Body):
    """A new role."""

    model_config = example(
        name="Help desk",
        description="Reads everything, unlocks accounts of the staff",
        permissions=["directory.read_object", "directory.unlock_account"],
        scopes=["OU=Staff,DC=corp,DC=example,DC=test"],
    )

    name: Name
    description: Description = ""
    permissions: Permissions = []
    scopes: Scopes = []


class UpdateRole(CreateRole, PartialUpdate):
    """The members to change; lists replace the previous ones."""

    model_config = example(permissions=["directory.read_object"])


class RoleRecord(TypedDict):
    """`scopes` are the last known names of what the role is confined to, `scopeObjects` the objects themselves."""

    id: Id
    version: str
    name: str
    description: str
    permissions: list[str]
    scopes: list[str]
    scopeObjects: list[ScopeRecord]
    keys: int
    createdAt: Moment | None
    changedAt: Moment | None


@rest_operation("roles.search", "GET roles", "Search roles", permission="keys.view_role")
def search_roles(call: Call, *, query: SearchRoles) -> Page[RoleRecord]:
    """List the roles by name."""
    roles = _roles().filter(own_rows.containing(query.name or "", "name")).annotate(lower_name=Lower("name"))
    return page_of(call, roles, query=query, order=("lower_name", "id"), render=_record)


@rest_operation("roles.read", "GET roles/{id}", "Read {a role}", permission="keys.view_role")
def read_role(_: Call, *, id: UUID) -> RoleRecord:
    """Read one role."""
    return _record(find_role(id))


@rest_operation(
    "roles.read-scopes", "GET roles/{id}/scopes", "Read the scopes of {a role}", permission="keys.view_role"
)
def read_role_scopes(_: Call, *, id: UUID) -> ScopesRecord:
    """Read the scopes of a role, with the names that their objects have now."""
    return {"items": find_scopes_now(find_role(id).scopes)}


@administration("roles.create", "POST roles", "Create {a role}", permission="keys.add_role", creates=True)
def create_role(call: Call, *, body: CreateRole) -> RoleRecord:
    """Create a role from permissions you hold yourself."""
    return _save(call, Role(), dict(body))


@administration("roles.update", "PATCH roles/{id}", "Update {a role}", permission="keys.change_role")
def update_role(call: Call, *, id: UUID, body: UpdateRole) -> RoleRecord:
    """Change a role. Every key with it has the new permissions at its next request."""
    role = find_role(id)
    # Wider scopes give more access too: only those may change a role who could grant all of its permissions.
    require_held(call, frozenset(names_of(role.permissions.all())))
    return _save(call, role, body.sent_values())


@administration("roles.delete", "DELETE roles/{id}", "Delete {a role}", permission="keys.delete_role")
def delete_role(_: Call, *, id: UUID) -> None:
    """Delete a role that no key has."""
    own_rows.delete(find_role(id), used=message("API keys have this role."))


def _roles() -> QuerySet[Role]:
    return Role.objects.annotate(key_count=Count("api_keys")).prefetch_related("permissions__content_type")


def find_role(id: UUID) -> Any:
    """The role, annotated with the number of its keys; raises NotFound."""
    return own_rows.find(_roles(), pk=id)


def _save(call: Call, role: Role, given: dict[str, Any]) -> RoleRecord:
    """Set the given members of a role and save it; raises Conflict for a name that is taken."""
    names = given.pop("permissions", None)
    permissions = None if names is None else find_granted(call, names, only_grantable=True)
    if "scopes" in given:
        given["scopes"] = resolve_scopes(given["scopes"])
    own_rows.assign(role, given)
    own_rows.save(role, taken=f"There is a role called {role.name} already.")
    if permissions is not None:
        role.permissions.set(permissions)
    return _record(find_role(role.pk))


class FindScopes(Body):
    """Names or ids of containers, as the bodies of roles, people and groups have them."""

    model_config = example(scopes=["OU=Staff,DC=corp,DC=example,DC=test"])

    scopes: Scopes = []


@rest_operation(
    "roles.find-scopes",
    "POST roles/find-scopes",
    "Find what scopes stand for",
    permission=frozenset({"keys.add_role", "keys.change_role", "keys.add_person", "keys.change_person"}),
)
def find_scopes(_: Call, *, body: FindScopes) -> ScopesRecord:
    """Find what the scopes that a role, a person or a group is to have stand for. Nothing is changed."""
    return {"items": find_scopes_now(resolve_scopes(body.scopes))}


def _record(role: Any) -> RoleRecord:
    record = as_record(
        RoleRecord,
        role,
        version="",
        permissions=names_of(role.permissions.all()),
        scopes=scope_names(role.scopes),
        scopeObjects=scope_records(role.scopes),
        keys=role.key_count,
    )
    return with_version(record, ignoring=("keys",))
