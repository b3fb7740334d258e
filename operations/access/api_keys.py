"""API keys: the credentials of integrations, and their links to directories."""

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone
from pydantic import Field
from typing_extensions import TypedDict

from approvals.budgets import BudgetJson, budgets_of_key
from audit import daily_counts
from audit.shapes import DayJson
from core.call import Call
from core.database import own_rows
from core.errors import Conflict, Forbidden, NotFound, invalid_member
from core.operation import administration, rest_operation
from core.paging import Page, page_of
from core.shapes import WHOLE_NUMBER, Id, Moment, Query, as_record, render_timestamp
from core.text.messages import message
from directory.models import DirectoryConnection
from keys import api_keys
from keys.api_keys import (
    ApiKeyRecord,
    CreateApiKey,
    CreatedApiKeyRecord,
    CreateLink,
    LinkRecord,
    RotateApiKey,
    RotatedRecord,
    SearchApiKeys,
    UpdateApiKey,
    api_key_as_json,
    find_expiring,
    find_unused,
    link_as_json,
)
from keys.models import ApiKey, Link, Person, Role
from keys.permission_catalogue import GRANTABLE
from keys.permissions.effective import permissions_of_person
from keys.permissions.scopes import ScopeNow, find_scopes_now, stored_scopes_of_person
from operations.access.permissions import acts_as_superuser, names_of


@rest_operation("api-keys.search", "GET api-keys", "Search API keys", permission="keys.view_apikey")
def search_api_keys(call: Call, *, query: SearchApiKeys) -> Page[ApiKeyRecord]:
    """List the API keys, newest first."""
    return page_of(call, _filtered(query), query=query, order=("-created_at", "-id"), render=api_key_as_json)


@rest_operation("api-keys.read", "GET api-keys/{id}", "Read {an API key}", permission="keys.view_apikey")
def read_api_key(_: Call, *, id: UUID) -> ApiKeyRecord:
    """Read one API key. Its value is not kept and cannot be shown again."""
    return api_key_as_json(find_key(id))


@administration("api-keys.create", "POST api-keys", "Create {an API key}", permission="keys.add_apikey", creates=True)
def create_api_key(call: Call, *, body: CreateApiKey) -> CreatedApiKeyRecord:
    """Create an API key; the answer holds its value, shown this once."""
    owner = Person.objects.filter(username=body.owner).first()
    _require_may_give(call, owner)
    if owner is None:
        raise invalid_member("owner", message("there is no such person"))
    key = ApiKey(owner=owner)
    _assign(key, dict(body) | {"owner": owner})
    value = api_keys.issue(key, created_by_id=call.person.id or None)
    return {**api_key_as_json(find_key(key.id)), "value": value}


@administration("api-keys.update", "PATCH api-keys/{id}", "Update {an API key}", permission="keys.change_apikey")
def update_api_key(call: Call, *, id: UUID, body: UpdateApiKey) -> ApiKeyRecord:
    """Change an API key of your own; a superuser changes any. It holds from the next request on."""
    key = _find_changeable(call, id)
    given = body.sent_values()
    _assign(key, given)
    if given:
        # Only the given members: a simultaneous revocation, rotation or use must not be overwritten.
        key.save(update_fields=sorted(given))
    return api_key_as_json(find_key(id))


@administration("api-keys.delete", "DELETE api-keys/{id}", "Delete {an API key}", permission="keys.delete_apikey")
def delete_api_key(_: Call, *, id: UUID) -> None:
    """Delete an API key that is revoked, expired or linked to no directory."""
    key = find_key(id)
    if api_keys.is_in_use(key):
        raise Conflict(message("The key is valid and linked to a directory: revoke it first."))
    key.delete()


@administration("api-keys.revoke", "POST api-keys/{id}/revoke", "Revoke {an API key}", permission="keys.change_apikey")
def revoke_api_key(call: Call, *, id: UUID) -> ApiKeyRecord:
    """Revoke an API key for good, whoever owns it. Every request with it is refused from now on."""
    api_keys.revoke(find_key(id), revoked_by_id=call.person.id or None)
    return api_key_as_json(find_key(id))


@administration("api-keys.rotate", "POST api-keys/{id}/rotate", "Rotate {an API key}", permission="keys.change_apikey")
def rotate_api_key(call: Call, *, id: UUID, body: RotateApiKey) -> RotatedRecord:
    """Give an API key of your own a new value, shown this once; a superuser rotates any."""
    key = _find_changeable(call, id)
    value = api_keys.rotate(key, grace=timedelta(seconds=body.grace_seconds))
    return {"value": value, "previousValidUntil": render_timestamp(key.previous_valid_until)}


@administration(
    "api-keys.create-link",
    "POST api-keys/{id}/links",
    "Link {an API key} to a directory",
    permission="keys.change_apikey",
    creates=True,
)
def create_link(call: Call, *, id: UUID, body: CreateLink) -> LinkRecord:
    """Link an API key to a directory; the answer holds the Client ID for X-Client-Id."""
    key = _find_changeable(call, id)
    connection = DirectoryConnection.objects.filter(pk=body.directory).first()
    if connection is None:
        raise invalid_member("directory", message("there is no such directory"))
    return link_as_json(api_keys.link(key, connection))


@administration(
    "api-keys.delete-link",
    "DELETE api-keys/{id}/links/{clientId}",
    "Delete a link of {an API key}",
    permission="keys.change_apikey",
)
def delete_link(_: Call, *, id: UUID, client_id: UUID) -> None:
    """Remove the link of an API key to a directory."""
    if not Link.objects.filter(api_key_id=id, client_id=client_id).delete()[0]:
        raise NotFound


def _filtered(query: SearchApiKeys) -> QuerySet[ApiKey]:
    keys = own_rows.filter_optional(
        _keys(),
        owner__username=query.owner,
        role=query.role,
        links__connection=query.directory,
    )
    if query.name is not None:
        keys = keys.filter(own_rows.containing(query.name, "name"))
    if query.state is not None:
        is_over = Q(expires_at__lte=timezone.now())
        states = {
            "active": Q(revoked_at__isnull=True) & ~is_over,
            "expired": Q(revoked_at__isnull=True) & is_over,
            "revoked": Q(revoked_at__isnull=False),
        }
        keys = keys.filter(states[query.state])
    if query.due is not None:
        due = find_expiring() if query.due == "expiring" else find_unused()
        keys = keys.filter(pk__in=due.values("pk"))
    return keys


def _keys() -> QuerySet[ApiKey]:
    related = ("owner", "role", "created_by", "revoked_by")
    return ApiKey.objects.select_related(*related).prefetch_related("links__connection")


def find_key(id: UUID) -> ApiKey:
    """The key with its related rows; raises NotFound."""
    return own_rows.find(_keys(), pk=id)


def _find_changeable(call: Call, id: UUID) -> ApiKey:
    key = find_key(id)
    _require_may_give(call, key.owner)
    if key.revoked_at is not None:
        raise Conflict(message("The key is revoked."))
    return key


def _require_may_give(call: Call, owner: Person | None) -> None:
    if owner is not None and owner.pk == call.person.id:
        return
    if not acts_as_superuser(call):
        raise Forbidden


def _assign(key: ApiKey, given: dict[str, Any]) -> None:
    """Set the given members of a key; raises InvalidRequest naming an invalid one."""
    if "role" in given:
        given["role"] = Role.objects.filter(pk=given["role"]).first()
        if given["role"] is None:
            raise invalid_member("role", message("there is no such role"))
    if given.get("expires_at") is not None and given["expires_at"] <= timezone.now():
        raise invalid_member("expiresAt", message("must be in the future"))
    own_rows.assign(key, given)


class KeyPermission(TypedDict):
    """`missing` tells whether the role or the owner lacks it; null for what the key may do."""

    name: str
    missing: Literal["role", "owner"] | None


class KeyPermissionsRecord(TypedDict):
    """The permissions that the role grants or the owner holds, and the role's scopes with present names.

    The owner may be confined too: an object also has to be inside one item of each list of `ownerScopes`.
    """

    permissions: list[KeyPermission]
    scopes: list[ScopeNow]
    ownerScopes: list[list[ScopeNow]]


@rest_operation(
    "api-keys.read-effective-permissions",
    "GET api-keys/{id}/permissions",
    "Read the effective permissions of {an API key}",
    permission="keys.view_apikey",
)
def read_key_permissions(_: Call, *, id: UUID) -> KeyPermissionsRecord:
    """Read what an API key may do now: what its role grants and its owner holds, and what either of them lacks.

    Expiry, revocation, addresses and links are in the key's own record.
    """
    key = find_key(id)
    owner = key.owner
    held = permissions_of_person(owner) & GRANTABLE
    given = GRANTABLE.intersection(names_of(key.role.permissions.select_related("content_type")))
    return {
        "permissions": [
            {"name": name, "missing": "role" if name not in given else "owner" if name not in held else None}
            for name in sorted(given | held)
        ],
        "scopes": find_scopes_now(key.role.scopes),
        "ownerScopes": [find_scopes_now(scopes) for scopes in stored_scopes_of_person(owner)],
    }


class ReadUsage(Query):
    """How far back to count."""

    days: Annotated[
        int, Field(ge=1, le=90, description="Days (UTC) to count, today the last of them."), WHOLE_NUMBER
    ] = 14


class KeyUsageRecord(TypedDict):
    """`budgets` are the key's limits on destructive and security changes, with what is left of them now."""

    days: list[DayJson]
    budgets: list[BudgetJson]


@rest_operation(
    "api-keys.read-usage", "GET api-keys/{id}/usage", "Read the usage of {an API key}", permission="keys.view_apikey"
)
def read_key_usage(_: Call, *, id: UUID, query: ReadUsage) -> KeyUsageRecord:
    """Read how many operations an API key was used for on each of the last days, and how they ended."""
    key = find_key(id)
    days = daily_counts.use_by_day(str(key.id), query.days)
    return {"days": days, "budgets": [budget.as_json() for budget in budgets_of_key(key)]}


_MAX_DUE = 20


class DueKeyRecord(TypedDict):
    id: Id
    name: str
    owner: str
    createdAt: Moment | None
    expiresAt: Moment | None
    lastUsedAt: Moment | None


class DueKeysRecord(TypedDict):
    """`total` counts all keys, `items` are the 20 most urgent."""

    total: int
    items: list[DueKeyRecord]


class KeysToLookAtRecord(TypedDict):
    expiring: DueKeysRecord
    unused: DueKeysRecord


@rest_operation("api-keys.list-due", "GET api-keys/due", "List due API keys", permission="keys.view_apikey")
def list_due_keys(_: Call) -> KeysToLookAtRecord:
    """List the valid API keys that expire within 30 days, and those that have not been used for 90."""
    return {"expiring": _due_record(find_expiring()), "unused": _due_record(find_unused())}


def _due_record(keys: QuerySet[ApiKey]) -> DueKeysRecord:
    items = [as_record(DueKeyRecord, key, owner=key.owner.username) for key in keys[:_MAX_DUE]]
    return {"total": len(items) if len(items) < _MAX_DUE else keys.count(), "items": items}
