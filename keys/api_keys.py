"""API keys: issuing, rotating, revoking and linking them, their last use, those that need attention, and their JSON.

Operations and Django admin both use this module, and decide who may do what. Each step is one conditional UPDATE. Last
uses, also of agents, are written at most once a minute by a thread of their own, so that no request waits for them.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal
from uuid import UUID

import structlog
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from core.call import SupervisionLevel
from core.database.own_rows import with_version
from core.errors import Conflict
from core.ip_addresses import normalise_network
from core.paging import PageQuery
from core.shapes import (
    Body,
    Guid,
    Id,
    Moment,
    PartialUpdate,
    Timestamp,
    as_record,
    documented_as,
    example,
    render_timestamp,
)
from core.text.messages import message
from core.text.names import require_label
from directory.models import DirectoryConnection
from keys import credential_values
from keys.models import ApiKey, Link
from keys.models.agents import AgentGrant
from keys.models.api_keys import valid_keys
from keys.people.account_status import require_present

MAX_GRACE = timedelta(days=30)
EXPIRES_WITHIN = timedelta(days=30)
UNUSED_FOR = timedelta(days=90)

_NOTED_EVERY = timedelta(minutes=1)
_noted_until: dict[UUID, float] = {}
"""Until when a use need not be noted again, by the id of the key or grant (monotonic seconds)."""

_logger = structlog.get_logger(__name__)


def issue(key: ApiKey, *, created_by_id: int | None) -> str:
    """Save a new key with a new secret and return its value, which is not stored. Raises what `require_present` does.

    `created_by_id` is None if a command makes the key.
    """
    require_present(key.owner)
    value, secret = credential_values.make(credential_values.Prefix.API_KEY)
    key.lookup_id, key.digest, key.created_by_id = secret.lookup_id, secret.digest, created_by_id
    key.save(force_insert=True)
    return value


def rotate(key: ApiKey, *, grace: timedelta = timedelta(0)) -> str:
    """Give a key a new value and return it; the previous value stays valid for `grace`.

    Raises Conflict for a revoked key, and what `require_present` does for its owner.
    """
    require_present(key.owner)
    value, secret = credential_values.make(credential_values.Prefix.API_KEY)
    # The value before that one ends now even if it was still in its grace: at most two are ever valid.
    rotated = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(
        previous_lookup_id=F("lookup_id") if grace else None,
        previous_digest=F("digest") if grace else "",
        previous_valid_until=timezone.now() + grace if grace else None,
        lookup_id=secret.lookup_id,
        digest=secret.digest,
    )
    if not rotated:
        raise Conflict(message("A revoked key cannot be rotated."))
    key.refresh_from_db()
    return value


def revoke(key: ApiKey, *, revoked_by_id: int | None) -> bool:
    """Revoke a key for good; False if it was revoked already."""
    revoked = ApiKey.objects.filter(pk=key.pk, revoked_at__isnull=True).update(
        revoked_at=timezone.now(), revoked_by_id=revoked_by_id
    )
    key.refresh_from_db()
    return bool(revoked)


def link(key: ApiKey, connection: DirectoryConnection) -> Link:
    """Link a key to a directory; raises Conflict if it is linked already or revoked."""
    if key.revoked_at is not None:
        raise Conflict(message("A revoked key cannot be linked."))
    try:
        with transaction.atomic():
            return Link.objects.create(api_key=key, connection=connection)
    except IntegrityError:
        raise Conflict(message("The key is linked to this directory already.")) from None


def is_in_use(key: ApiKey) -> bool:
    """Whether an integration may be using the key: it is valid and linked to a directory."""
    return key.state == "active" and key.links.exists()


@lru_cache(maxsize=1)
def _writer() -> ThreadPoolExecutor:
    """One thread per process, made on first use, since threads do not survive a fork."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="key-usage")


def note_use(of: ApiKey | AgentGrant, *, address: str) -> None:
    """Note that a key or an agent's grant was used now, without waiting for the database or raising."""
    moment = time.monotonic()
    if moment < _noted_until.get(of.id, 0):
        return
    now = timezone.now()
    last = of.last_used_at
    if last is None or now - last >= _NOTED_EVERY:
        last = now
        _writer().submit(_write, of, now, address)
    _noted_until[of.id] = moment + (last + _NOTED_EVERY - now).total_seconds()


def _write(of: ApiKey | AgentGrant, at: datetime, address: str) -> None:
    """Write a last use, unless another process has just written one."""
    try:
        is_due = Q(last_used_at__isnull=True) | Q(last_used_at__lte=at - _NOTED_EVERY)
        type(of).objects.filter(is_due, pk=of.pk).update(last_used_at=at, last_used_address=address)
    except DatabaseError as error:
        _logger.warning("last use of a credential not written", credential=str(of.pk), error=str(error))
    finally:
        connection.close()  # this thread's own, which would stay open while the thread is idle


def find_expiring() -> QuerySet[ApiKey]:
    """The valid keys that expire within 30 days, the next to expire first."""
    return (
        valid_keys()
        .select_related("owner")
        .filter(expires_at__lte=timezone.now() + EXPIRES_WITHIN)
        .order_by("expires_at", "id")
    )


def find_unused() -> QuerySet[ApiKey]:
    """The valid keys not used for 90 days, the longest unused first. Keys never used count from their creation."""
    idle = valid_keys().select_related("owner").annotate(idle_since=Coalesce("last_used_at", "created_at"))
    return idle.filter(idle_since__lte=timezone.now() - UNUSED_FOR).order_by("idle_since", "id")


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

    name: str | None = Field(None, description="A part of the name, in any case.")
    owner: str | None = Field(None, description="User name of the person the key acts as.")
    role: Guid | None = Field(None, description="The role's id.")
    directory: Guid | None = Field(None, description="The id of a directory the key is linked to.")
    state: Literal["active", "expired", "revoked"] | None = Field(None, description="How the key stands.")
    due: Literal["expiring", "unused"] | None = Field(
        None, description="Valid keys that expire within 30 days, or were not used for 90."
    )


PasswordsToRequester = Annotated[
    bool,
    Field(
        description="Whether a password that is generated when an approved reset is applied is for the key's owner to "
        "take, once, instead of the approver."
    ),
]


def _budget(changes: str) -> Any:
    description = f"How many {changes} it may make; further ones wait for a person. Null: as configured for all keys."
    return Field(None, ge=0, le=2_147_483_647, description=description)


class CreateApiKey(Body):
    """A new key. Only a superuser makes one for another owner."""

    model_config = example(
        name="HR import",
        owner="grace",
        role="5f0c6d0e-8f9e-4d6e-9c39-0d9a4f5f7a11",
        expiresAt="2031-01-01T00:00:00Z",
        allowedAddresses=["192.0.2.10", "2001:db8:12::/48"],
        supervisionLevel="ask_destructive_security",
    )

    name: Name
    owner: Annotated[str, Field(min_length=1, max_length=255, description="User name of the person it acts as.")]
    role: Guid
    expires_at: Timestamp | None = None
    allowed_addresses: Addresses = Field(default_factory=list)
    supervision_level: Level = _DEFAULT_LEVEL
    passwords_to_requester: PasswordsToRequester = False
    aggregates_reads: Annotated[
        bool,
        Field(
            description="Whether reads that are alike and succeed within a minute are one record, with their number."
        ),
    ] = False
    destructive_changes_per_hour: int | None = _budget("destructive changes in an hour")
    destructive_changes_per_day: int | None = _budget("destructive changes in a day")
    security_changes_per_hour: int | None = _budget("security changes in an hour")
    security_changes_per_day: int | None = _budget("security changes in a day")


class UpdateApiKey(CreateApiKey, PartialUpdate):
    """The members to change. A key keeps its owner."""

    model_config = example(allowedAddresses=["192.0.2.10"])
    fixed = frozenset({"owner"})


class RotateApiKey(Body):
    """How long the previous value stays valid, so that integrations can change over without a gap."""

    model_config = example(graceSeconds=3600)

    grace_seconds: Annotated[int, Field(ge=0, le=int(MAX_GRACE.total_seconds()))] = 0


class CreateLink(Body):
    """The directory that the key is to manage."""

    model_config = example(directory="0b9c1a52-7a34-4f0b-9d55-3a8b1a0f2c33")

    directory: Guid


class LinkRecord(TypedDict):
    directory: Id
    directoryName: str
    clientId: Id


class ApiKeyRecord(TypedDict):
    """`state` is `active`, `expired` or `revoked`; an active key of an inactive owner cannot be used.

    `lookupId` is the twelve characters after `dgk_` in the value, by which other systems' logs can name a key. The
    value before the last rotation is valid until `previousValidUntil`. Use does not change `version`.
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
    aggregatesReads: bool
    destructiveChangesPerHour: int | None
    destructiveChangesPerDay: int | None
    securityChangesPerHour: int | None
    securityChangesPerDay: int | None
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
    """`value` is shown this once; the previous one is valid until `previousValidUntil`."""

    value: str
    previousValidUntil: Moment | None


_VOLATILE_MEMBERS = ("previousValidUntil", "ownerActive", "roleName", "state", "lastUsedAt", "lastUsedAddress")
"""Members that change without anybody changing the key."""


def link_as_json(link: Link) -> LinkRecord:
    return {
        "directory": str(link.connection_id),
        "directoryName": link.connection.name,
        "clientId": str(link.client_id),
    }


def api_key_as_json(key: ApiKey) -> ApiKeyRecord:
    in_grace = key.previous_valid_until is not None and key.previous_valid_until > timezone.now()
    record = as_record(
        ApiKeyRecord,
        key,
        version="",
        owner=key.owner.username,
        ownerActive=key.owner.is_active,
        role=str(key.role_id),
        roleName=key.role.name,
        links=[link_as_json(link) for link in key.links.all()],
        createdBy=key.created_by and key.created_by.username,
        revokedBy=key.revoked_by and key.revoked_by.username,
        previousValidUntil=render_timestamp(key.previous_valid_until) if in_grace else None,
        lastUsedAddress=key.last_used_address or None,
    )
    return with_version(record, ignoring=_VOLATILE_MEMBERS)
