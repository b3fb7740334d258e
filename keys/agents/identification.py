"""From an agent's token to its `Call`, or a refusal that tells nothing.

Everything is read anew for each request: the token, its grant, the client, the person with what they may do now. How
tokens come to be is `validator`'s matter.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from audit import security
from core.call import Call, CredentialKind, CredentialRef, DirectoryRef, PersonRef, SupervisionLevel, Surface
from core.errors import AmbiguousCredential, Forbidden
from core.shapes import parse_guid
from keys.agents import scopes
from keys.agents.errors import UnauthorizedAgent
from keys.agents.issuer_urls import audience_of, resource_metadata_of
from keys.api_keys import usage
from keys.callers import note_caller
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentGrant, stamp_of
from keys.people.account_status import AccountStatus, NotChecked, account_status
from keys.permissions.effective import held_by_person
from keys.permissions.scoping import ScopesAsKept
from keys.sign_in import second_factor

MAX_TOKEN = 512
"""Characters. What is longer is no token of ours, and not worth a digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantFacts:
    """What one query tells about a grant: itself, its client, its person and its directory."""

    id: UUID
    permissions: list[str]
    supervision_level: str
    person_stamp: str
    ended_at: datetime | None
    expires_at: datetime
    last_used_at: datetime | None
    client_id: str
    client_name: str
    client_disabled_at: datetime | None
    person_id: int
    username: str
    display_name: str
    is_active: bool
    is_superuser: bool
    own_scopes: ScopesAsKept
    password: str = field(repr=False)
    session_epoch: int
    home: UUID | None
    checked_at: datetime
    connection_id: UUID
    connection_name: str
    connection_client_id: str
    connection_enabled: bool
    protection_changes: int


_COLUMNS = (
    *("id", "permissions", "supervision_level", "person_stamp", "ended_at", "expires_at", "last_used_at"),
    *("client__client_id", "client__name", "client__disabled_at"),
    *("person_id", "person__username", "person__display_name", "person__is_active", "person__is_superuser"),
    *("person__scopes", "person__password", "person__session_epoch"),
    *("person__connection_id", "person__directory_checked_at"),
    *("connection_id", "connection__name", "connection__client_id", "connection__enabled"),
    "connection__protection_changes",
)
_NAMES = tuple(GrantFacts.__dataclass_fields__)


def identify_agent(request: HttpRequest) -> Call:
    """The call of an agent: a bearer token of its own sign-in alone.

    Raises UnauthorizedAgent, AmbiguousCredential when another credential comes with it, or NotChecked.
    """
    authorization = request.headers.get("Authorization")
    if authorization is not None and "X-API-Key" in request.headers:
        raise AmbiguousCredential
    if authorization is None:
        raise _refusal(request, "no agent token", presented="X-API-Key" in request.headers)
    if "access_token" in request.GET:  # addresses end in logs and histories: whoever sends it so is told at once
        raise _refusal(request, "token in the query")
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() != "bearer" or not 0 < len(value) <= MAX_TOKEN:
        raise _refusal(request, "no bearer token at the agent endpoint")
    checksum = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()
    of_grant = (f"grant__{column}" for column in _COLUMNS)
    tokens = AgentAccessToken.objects.order_by().filter(token_checksum=checksum)
    found = tokens.values_list("expires", "resource", "scope", *of_grant).first()
    if found is None:
        raise _refusal(request, "unknown agent token")
    expires, resource, scope, *columns = found
    grant = GrantFacts(**dict(zip(_NAMES, columns, strict=True)))
    reason = "agent token expired" if expires <= timezone.now() else None
    if resource != [audience_of(request)]:
        reason = "agent token for another audience"
    if reason := reason or _why_refused(grant):
        raise _refusal(request, reason, grant=grant)
    standing = account_status(grant.person_id, connection_id=grant.home, checked_at=grant.checked_at)
    if standing is AccountStatus.LEFT:
        raise _refusal(request, "person has left the directory", grant=grant)
    if standing is AccountStatus.UNKNOWN:
        security.refused("person not checked for too long", agent=str(grant.id), **_origin(request))
        raise NotChecked
    address = getattr(request, "client_address", "")
    usage.note(grant.id, last_used_at=grant.last_used_at, address=address, of=AgentGrant)
    call = _call_of(
        grant,
        surface=Surface.AGENT,
        # A token may be for less than was consented to, if the agent asked for less.
        within=scopes.permissions_of(scope.split()),
        expires_at=expires,
        client_address=address or None,
        request_id=getattr(request, "request_id", ""),
    )
    return note_caller(request, call)


def call_for_agent(
    grant_id: UUID | str,
    *,
    connection_id: UUID,
    surface: Surface,
    request_id: str,
    change_request_id: UUID | None = None,
) -> Call:
    """A call for work done later for an agent: everything is checked anew; raises Forbidden, or NotChecked while the
    person's directory does not answer."""
    wanted = grant_id if isinstance(grant_id, UUID) else parse_guid(grant_id)
    columns = AgentGrant.objects.order_by().filter(pk=wanted).values_list(*_COLUMNS).first() if wanted else None
    if columns is None:
        raise Forbidden
    grant = GrantFacts(**dict(zip(_NAMES, columns, strict=True)))
    if _why_refused(grant) is not None or grant.connection_id != connection_id:
        raise Forbidden
    standing = account_status(grant.person_id, connection_id=grant.home, checked_at=grant.checked_at)
    if standing is AccountStatus.UNKNOWN:
        raise NotChecked
    if standing is AccountStatus.LEFT:
        raise Forbidden
    call = _call_of(grant, surface=surface, request_id=request_id, change_request_id=change_request_id)
    if call.directory is None:
        raise Forbidden
    return call


def _why_refused(grant: GrantFacts) -> str | None:
    """The true reason why a grant is good for nothing now, None while it is."""
    reasons = (
        (not settings.CONFIGURATION.Agents.Enabled, "agents are switched off"),
        (grant.ended_at is not None, "agent revoked"),
        (grant.expires_at <= timezone.now(), "agent not used for too long"),
        (grant.client_disabled_at is not None, "agent's client disabled"),
        (not grant.is_active, "person deactivated"),
        (grant.person_stamp != stamp_of(grant.password, grant.session_epoch), "person has another password since"),
    )
    reason = next((reason for applies, reason in reasons if applies), None)
    if reason is None and settings.CONFIGURATION.SignIn.RequireSecondFactor:
        person = Person.objects.filter(pk=grant.person_id).first()
        if person is None or second_factor.is_missing(person):
            return "no second factor, which is required"
    return reason


def _call_of(
    grant: GrantFacts,
    *,
    within: frozenset[str] | None = None,
    expires_at: datetime | None = None,
    **facts: Any,
) -> Call:
    """The call of a grant that was found good: the agent may do what is consented and held by the person now, and only
    where they may do it.
    """
    consented = frozenset(grant.permissions)
    held = held_by_person(
        grant.person_id, is_active=grant.is_active, is_superuser=grant.is_superuser, own_scopes=grant.own_scopes
    )
    directory = DirectoryRef(
        id=grant.connection_id,
        name=grant.connection_name,
        client_id=grant.connection_client_id,
        protection_changes=grant.protection_changes,
    )
    # Whoever belongs to a directory works on that one alone, whatever was once consented to.
    is_open = grant.connection_enabled and grant.home in (None, grant.connection_id)
    return Call(
        person=PersonRef(
            id=grant.person_id, username=grant.username, display_name=grant.display_name or grant.username
        ),
        credential=CredentialRef(
            kind=CredentialKind.AGENT_TOKEN,
            id=grant.client_id,
            name=grant.client_name,
            expires_at=expires_at,
            grant_id=grant.id,
        ),
        permissions=held.permissions & (consented if within is None else consented & within),
        scopes=held.scopes,
        supervision=SupervisionLevel(grant.supervision_level),
        directory=directory if is_open else None,
        directory_refusal=None if is_open else Forbidden(),
        **facts,
    )


def _refusal(
    request: HttpRequest, reason: str, *, presented: bool = True, grant: GrantFacts | None = None
) -> UnauthorizedAgent:
    security.refused(reason, agent=None if grant is None else str(grant.id), **_origin(request))
    return UnauthorizedAgent(metadata_url=resource_metadata_of(request), presented=presented)


def _origin(request: HttpRequest) -> dict[str, Any]:
    return {
        "client_address": getattr(request, "client_address", None) or None,
        "request_id": getattr(request, "request_id", ""),
    }
