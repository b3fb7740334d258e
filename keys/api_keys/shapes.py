"""How API keys are sent and answered. What is done with them is `operations.api_keys`' business."""

from typing import Annotated, Literal

from django.utils import timezone
from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from core.call import SupervisionLevel
from core.network.allowed_networks import normalise_network
from core.paging import PageQuery
from core.shapes import Body, Changes, Guid, Id, Moment, Timestamp, documented_as, render_timestamp
from core.text.names import require_label
from core.versions import with_version
from keys.api_keys import lifecycle
from keys.models import ApiKey, Link

Name = Annotated[
    str,
    Field(min_length=1, max_length=100, pattern=r"\S"),
    AfterValidator(require_label),
    AfterValidator(str.strip),
]
Addresses = Annotated[
    list[Annotated[str, AfterValidator(normalise_network)]],
    Field(max_length=200, description="Addresses and CIDR blocks that requests may come from; empty: from anywhere."),
    AfterValidator(lambda addresses: list(dict.fromkeys(addresses))),
]
Level = Annotated[
    Literal["ask_every_change", "ask_destructive_security", "act"],
    Field(description="Which changes wait for a person's approval."),
]
_DEFAULT_LEVEL: Level = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value


class SearchApiKeys(PageQuery):
    """The filters of the list; several of them narrow each other down."""

    name: Annotated[str | None, Field(description="A part of the name, in any case.")] = None
    owner: Annotated[str | None, Field(description="User name of the person the key acts as.")] = None
    role: Annotated[Guid | None, Field(description="The role's id.")] = None
    directory: Annotated[Guid | None, Field(description="The id of a directory the key is linked to.")] = None
    state: Annotated[Literal["active", "expired", "revoked"] | None, Field(description="How the key stands.")] = None
    due: Annotated[
        Literal["expiring", "unused"] | None,
        Field(description="Valid keys that expire within 30 days, or were not used for 90."),
    ] = None


PasswordsToRequester = Annotated[
    bool,
    Field(
        description="Whether a password that is generated when an approved reset is applied is for the key's owner to "
        "take, once, instead of the approver."
    ),
]


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
    passwords_to_requester: PasswordsToRequester = False


class UpdateApiKey(CreateApiKey, Changes):
    """What is to be different. A key keeps its owner."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"allowedAddresses": ["192.0.2.10"]}]})
    fixed = frozenset({"owner"})


class RotateApiKey(Body):
    """How long the value before stays valid, so that integrations can change over without a gap."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"graceSeconds": 3600}]})

    grace_seconds: Annotated[int, Field(ge=0, le=int(lifecycle.MAX_GRACE.total_seconds()))] = 0


class CreateLink(Body):
    """The directory that the key shall manage."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"directory": "0b9c1a52-7a34-4f0b-9d55-3a8b1a0f2c33"}]})

    directory: Guid


class LinkRecord(TypedDict):
    directory: Id
    directoryName: str
    clientId: Id


class ApiKeyRecord(TypedDict):
    """`state` is `active`, `expired` or `revoked`; nobody can use an active key of an owner who is not.

    `lookupId` are the twelve characters after `dgk_` in the value, which tell keys apart in logs of others. The value
    before the last rotation is valid until `previousValidUntil`. `version` changes with what people change, not by use.
    """

    id: Id
    version: str
    name: str
    lookupId: str
    owner: str
    ownerActive: bool
    role: Id
    roleName: str
    state: Literal["active", "expired", "revoked"]
    expiresAt: Moment | None
    allowedAddresses: list[str]
    supervisionLevel: Annotated[str, documented_as(SupervisionLevel)]
    passwordsToRequester: bool
    links: list[LinkRecord]
    createdAt: Moment | None
    createdBy: str | None
    revokedAt: Moment | None
    revokedBy: str | None
    previousValidUntil: Moment | None
    lastUsedAt: Moment | None
    lastUsedAddress: str | None


class CreatedApiKeyRecord(ApiKeyRecord):
    """`value` is shown this once."""

    value: str


class RotatedRecord(TypedDict):
    """`value` is shown this once; the one before is valid until `previousValidUntil`."""

    value: str
    previousValidUntil: Moment | None


_PASSING = ("previousValidUntil", "ownerActive", "roleName", "state", "lastUsedAt", "lastUsedAddress")
"""What becomes different without anybody changing the key."""


def link_as_json(link: Link) -> LinkRecord:
    return {
        "directory": str(link.connection_id),
        "directoryName": link.connection.name,
        "clientId": str(link.client_id),
    }


def api_key_as_json(key: ApiKey) -> ApiKeyRecord:
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
        "passwordsToRequester": key.passwords_to_requester,
        "links": [link_as_json(link) for link in key.links.all()],
        "createdAt": render_timestamp(key.created_at),
        "createdBy": key.created_by.username if key.created_by else None,
        "revokedAt": render_timestamp(key.revoked_at),
        "revokedBy": key.revoked_by.username if key.revoked_by else None,
        "previousValidUntil": render_timestamp(key.previous_valid_until) if in_grace else None,
        "lastUsedAt": render_timestamp(key.last_used_at),
        "lastUsedAddress": key.last_used_address or None,
    }
    return with_version(record, passing=_PASSING)
