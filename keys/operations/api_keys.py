"""API keys: the credentials of integrations, and their links to directories."""

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from directory.models import DirectoryConnection
from gateway.core.call import Call, SupervisionLevel, Surface
from gateway.core.errors import Conflict, Forbidden, NotFound
from gateway.core.operation import Effect, operation
from gateway.core.paging import Page, PageQuery, page_of
from gateway.core.shapes import Body, Guid, Timestamp, render_timestamp
from gateway.core.versions import version_of
from keys import lifecycle
from keys.addresses import normalise_network
from keys.models import ApiKey, Link, Person, Role
from keys.operations.refusals import invalid_member

_REST = frozenset({Surface.REST})

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S")]
Addresses = Annotated[
    list[Annotated[str, AfterValidator(normalise_network)]],
    Field(max_length=200, description="Addresses and CIDR blocks that requests may come from; empty: from anywhere."),
]
Level = Annotated[
    Literal["ask_every_change", "ask_destructive_security", "act"],
    Field(description="Which changes wait for a person's approval."),
]
_DEFAULT_LEVEL: Level = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value


class CreateApiKey(Body):
    """A new key. Only a superuser makes one for another owner."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "HR import",
                    "owner": "grace",
                    "role": "5f0c6d0e-8f9e-4d6e-9c39-0d9a4f5f7a11",
                    "expiresAt": "2031-01-01T00:00:00Z",
                    "allowedAddresses": ["192.0.2.10", "2001:db8:12::/48"],
                    "supervisionLevel": "ask_destructive_security",
                }
            ]
        }
    )

    name: Name
    owner: Annotated[str, Field(min_length=1, max_length=255, description="User name of the person it acts as.")]
    role: Guid
    expires_at: Timestamp | None = None
    allowed_addresses: Addresses = Field(default_factory=list)
    supervision_level: Level = _DEFAULT_LEVEL


class UpdateApiKey(Body):
    """What is to be different. A key keeps its owner."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"allowedAddresses": ["192.0.2.10"]}]})

    name: Name = ""
    role: Guid = UUID(int=0)
    expires_at: Timestamp | None = None
    allowed_addresses: Addresses = Field(default_factory=list)
    supervision_level: Level = _DEFAULT_LEVEL


class RotateApiKey(Body):
    """How long the value before stays valid, so that integrations can change over without a gap."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"graceSeconds": 3600}]})

    grace_seconds: Annotated[int, Field(ge=0, le=int(lifecycle.MAX_GRACE.total_seconds()))] = 0


class CreateLink(Body):
    """The directory that the key shall manage."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"directory": "0b9c1a52-7a34-4f0b-9d55-3a8b1a0f2c33"}]})

    directory: Guid


class LinkRecord(TypedDict):
    directory: str
    directoryName: str
    clientId: str


class ApiKeyRecord(TypedDict):
    """`state` is `active`, `expired` or `revoked`; nobody can use an active key of an owner who is not.

    `lookupId` are the twelve characters after `dgk_` in the value, which tell keys apart in logs of others. The value
    before the last rotation is valid until `previousValidUntil`. `version` changes with what people change, not by use.
    """

    id: str
    version: str
    name: str
    lookupId: str
    owner: str
    ownerActive: bool
    role: str
    roleName: str
    state: str
    expiresAt: str | None
    allowedAddresses: list[str]
    supervisionLevel: str
    links: list[LinkRecord]
    createdAt: str | None
    createdBy: str | None
    revokedAt: str | None
    revokedBy: str | None
    previousValidUntil: str | None
    lastUsedAt: str | None
    lastUsedAddress: str | None


_PASSING = frozenset(
    {"version", "previousValidUntil", "ownerActive", "roleName", "state", "lastUsedAt", "lastUsedAddress"}
)
"""What becomes different without anybody changing the key."""


class CreatedApiKeyRecord(ApiKeyRecord):
    """`value` is shown this once."""

    value: str


class RotatedRecord(TypedDict):
    """`value` is shown this once; the one before is valid until `previousValidUntil`."""

    value: str
    previousValidUntil: str | None


@operation(
    "api-keys.search",
    "GET api-keys",
    permission="keys.view_apikey",
    query=PageQuery,
    output=Page[ApiKeyRecord],
    surfaces=_REST,
)
def search_api_keys(call: Call, *, query: PageQuery) -> Page[ApiKeyRecord]:
    """List the API keys, newest first."""
    return page_of(call, _keys(), query=query, order=("-created_at", "-id"), render=_record)


@operation("api-keys.read", "GET api-keys/{id}", permission="keys.view_apikey", output=ApiKeyRecord, surfaces=_REST)
def read_api_key(call: Call, *, id: UUID) -> ApiKeyRecord:  # noqa: ARG001 - every operation takes its call
    """Read one API key. Its value is not kept and cannot be shown again."""
    return _record(_find_key(id))


@operation(
    "api-keys.create",
    "POST api-keys",
    permission="keys.add_apikey",
    effect=Effect.ADMINISTER,
    body=CreateApiKey,
    output=CreatedApiKeyRecord,
    surfaces=_REST,
)
def create_api_key(call: Call, *, body: CreateApiKey) -> CreatedApiKeyRecord:
    """Create an API key; the answer holds its value, shown this once."""
    owner = Person.objects.filter(username=body.owner).first()
    _require_may_give(call, owner)
    if owner is None:
        raise invalid_member("owner", "there is no such person")
    key = ApiKey(
        name=body.name.strip(),
        owner=owner,
        role=_find_role(body.role),
        expires_at=body.expires_at,
        allowed_addresses=list(dict.fromkeys(body.allowed_addresses)),
        supervision_level=body.supervision_level,
    )
    _require_future(key)
    value = lifecycle.issue(key, created_by_id=call.person.id)
    return {**_record(_find_key(key.id)), "value": value}


@operation(
    "api-keys.update",
    "PATCH api-keys/{id}",
    permission="keys.change_apikey",
    effect=Effect.ADMINISTER,
    body=UpdateApiKey,
    output=ApiKeyRecord,
    surfaces=_REST,
)
def update_api_key(call: Call, *, id: UUID, body: UpdateApiKey) -> ApiKeyRecord:
    """Change an API key of your own; a superuser changes any. It holds from the next request on."""
    key = _find_changeable(call, id)
    given = body.model_fields_set
    if "name" in given:
        key.name = body.name.strip()
    if "role" in given:
        key.role = _find_role(body.role)
    if "expires_at" in given:
        key.expires_at = body.expires_at
        _require_future(key)
    if "allowed_addresses" in given:
        key.allowed_addresses = list(dict.fromkeys(body.allowed_addresses))
    if "supervision_level" in given:
        key.supervision_level = body.supervision_level
    if given:
        # Only what was given: a revocation, a rotation or a use at the same moment is not written over.
        key.save(update_fields=sorted(given))
    return _record(_find_key(id))


@operation(
    "api-keys.delete",
    "DELETE api-keys/{id}",
    permission="keys.delete_apikey",
    effect=Effect.ADMINISTER,
    surfaces=_REST,
)
def delete_api_key(call: Call, *, id: UUID) -> None:  # noqa: ARG001 - every operation takes its call
    """Delete an API key that is revoked, expired or linked to no directory."""
    key = _find_key(id)
    if lifecycle.is_in_use(key):
        raise Conflict("The key is valid and linked to a directory: revoke it first.")
    key.delete()


@operation(
    "api-keys.revoke",
    "POST api-keys/{id}/revoke",
    permission="keys.change_apikey",
    effect=Effect.ADMINISTER,
    output=ApiKeyRecord,
    surfaces=_REST,
)
def revoke_api_key(call: Call, *, id: UUID) -> ApiKeyRecord:
    """Revoke an API key for good, whoever owns it. Every request with it is refused from now on."""
    lifecycle.revoke(_find_key(id), revoked_by_id=call.person.id)
    return _record(_find_key(id))


@operation(
    "api-keys.rotate",
    "POST api-keys/{id}/rotate",
    permission="keys.change_apikey",
    effect=Effect.ADMINISTER,
    body=RotateApiKey,
    output=RotatedRecord,
    surfaces=_REST,
)
def rotate_api_key(call: Call, *, id: UUID, body: RotateApiKey) -> RotatedRecord:
    """Give an API key of your own a new value, shown this once; a superuser rotates any."""
    key = _find_changeable(call, id)
    value = lifecycle.rotate(key, grace=timedelta(seconds=body.grace_seconds))
    return {"value": value, "previousValidUntil": render_timestamp(key.previous_valid_until)}


@operation(
    "api-keys.create-link",
    "POST api-keys/{id}/links",
    permission="keys.change_apikey",
    effect=Effect.ADMINISTER,
    body=CreateLink,
    output=LinkRecord,
    surfaces=_REST,
)
def create_link(call: Call, *, id: UUID, body: CreateLink) -> LinkRecord:
    """Link an API key to a directory; the answer holds the Client ID for X-Client-Id."""
    key = _find_changeable(call, id)
    connection = DirectoryConnection.objects.filter(pk=body.directory).first()
    if connection is None:
        raise invalid_member("directory", "there is no such directory")
    return _link_record(lifecycle.link(key, connection))


@operation(
    "api-keys.delete-link",
    "DELETE api-keys/{id}/links/{clientId}",
    permission="keys.change_apikey",
    effect=Effect.ADMINISTER,
    surfaces=_REST,
)
def delete_link(call: Call, *, id: UUID, client_id: UUID) -> None:  # noqa: ARG001 - every operation takes its call
    """Remove the link of an API key to a directory."""
    if not Link.objects.filter(api_key_id=id, client_id=client_id).delete()[0]:
        raise NotFound


def _keys() -> QuerySet[ApiKey]:
    related = ("owner", "role", "created_by", "revoked_by")
    return ApiKey.objects.select_related(*related).prefetch_related("links__connection")


def _find_key(id: UUID) -> ApiKey:
    key = _keys().filter(pk=id).first()
    if key is None:
        raise NotFound
    return key


def _find_changeable(call: Call, id: UUID) -> ApiKey:
    key = _find_key(id)
    _require_may_give(call, key.owner)
    if key.revoked_at is not None:
        raise Conflict("The key is revoked.")
    return key


def _require_may_give(call: Call, owner: Person | None) -> None:
    if owner is not None and owner.pk == call.person.id:
        return
    if not Person.objects.filter(pk=call.person.id, is_superuser=True).exists():
        raise Forbidden


def _find_role(id: UUID) -> Role:
    role = Role.objects.filter(pk=id).first()
    if role is None:
        raise invalid_member("role", "there is no such role")
    return role


def _require_future(key: ApiKey) -> None:
    if key.expires_at is not None and key.expires_at <= timezone.now():
        raise invalid_member("expiresAt", "must be in the future")


def _link_record(link: Any) -> LinkRecord:
    return {
        "directory": str(link.connection_id),
        "directoryName": link.connection.name,
        "clientId": str(link.client_id),
    }


def _record(key: ApiKey) -> ApiKeyRecord:
    in_grace = key.previous_valid_until is not None and key.previous_valid_until > timezone.now()
    record: ApiKeyRecord = {
        "id": str(key.id),
        "version": "",
        "name": key.name,
        "lookupId": key.lookup_id,
        "owner": key.owner.username,
        "ownerActive": key.owner.is_active,
        "role": str(key.role_id),
        "roleName": key.role.name,
        "state": key.state,
        "expiresAt": render_timestamp(key.expires_at),
        "allowedAddresses": key.allowed_addresses,
        "supervisionLevel": key.supervision_level,
        "links": [_link_record(link) for link in key.links.all()],
        "createdAt": render_timestamp(key.created_at),
        "createdBy": key.created_by.username if key.created_by else None,
        "revokedAt": render_timestamp(key.revoked_at),
        "revokedBy": key.revoked_by.username if key.revoked_by else None,
        "previousValidUntil": render_timestamp(key.previous_valid_until) if in_grace else None,
        "lastUsedAt": render_timestamp(key.last_used_at),
        "lastUsedAddress": key.last_used_address or None,
    }
    record["version"] = version_of({name: value for name, value in record.items() if name not in _PASSING})
    return record
