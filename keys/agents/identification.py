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
from core.errors import AmbiguousCredential, Forbidden, Unauthorized
from core.shapes import parse_guid
from keys.agents import scopes
from keys.agents.issuer_urls import audience_of, resource_metadata_of
from keys.api_keys import usage
from keys.callers import note_caller
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentGrant, stamp_of
from keys.people.account_status import AccountStatus, NotChecked, account_status
from keys.permissions.effective import held_by_person
from keys.permissions.scoping import ScopesAsKept
from keys.sign_in import second_factor
from keys.sign_in.credentials import client_address, origin_of

MAX_TOKEN = 512
"""Characters. What is longer is no token of ours, and not worth a digest."""


class UnauthorizedAgent(Unauthorized):
    """No usable agent token. The header leads a client to the sign-in (RFC 9728 section 5.1).

    Whether anything was presented is all that it tells: never why that was not good enough.
    """

    def __init__(self, *, metadata_url: str, presented: bool) -> None:
        super().__init__()
        error = ', error="invalid_token"' if presented else ""
        self.headers["WWW-Authenticate"] = (
            f'Bearer realm="directory-gateway"{error}, resource_metadata="{metadata_url}"'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantFacts:
    """What one query tells about a grant, its client, its person and its directory: each by its column's path."""

    id: UUID
    permissions: list[str]
    supervision_level: str
    person_stamp: str
    ended_at: datetime | None
    expires_at: datetime
    last_used_at: datetime | None
    client__client_id: str
    client__name: str
    client__disabled_at: datetime | None
    person_id: int
    person__username: str
    person__display_name: str
    person__is_active: bool
    person__is_superuser: bool
    person__scopes: ScopesAsKept
    person__password: str = field(repr=False)
    person__session_epoch: int
    person__connection_id: UUID | None
    person__directory_checked_at: datetime
    connection_id: UUID
    connection__name: str
    connection__client_id: str
    connection__enabled: bool
    connection__protection_changes: int


_COLUMNS = tuple(GrantFacts.__dataclass_fields__)


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
    grant = GrantFacts(**dict(zip(_COLUMNS, columns, strict=True)))
    reason = "agent token expired" if expires <= timezone.now() else None
    if resource != [audience_of(request)]:
        reason = "agent token for another audience"
    try:
        reason = reason or _why_refused(grant)
    except NotChecked:
        security.refused("person not checked for too long", agent=str(grant.id), **origin_of(request))
        raise
    if reason:
        raise _refusal(request, reason, grant=grant)
    address = client_address(request)
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
    grant = GrantFacts(**dict(zip(_COLUMNS, columns, strict=True)))
    if grant.connection_id != connection_id or _why_refused(grant) is not None:
        raise Forbidden
    call = _call_of(grant, surface=surface, request_id=request_id, change_request_id=change_request_id)
    if call.directory is None:
        raise Forbidden
    return call


def _why_refused(grant: GrantFacts) -> str | None:
    """The true reason why a grant is good for nothing now, None while it is good.

    Raises NotChecked while nobody knows whether the person is still in their directory.
    """
    stamp = stamp_of(grant.person__password, grant.person__session_epoch)
    reasons = (
        (not settings.CONFIGURATION.Agents.Enabled, "agents are switched off"),
        (grant.ended_at is not None, "agent revoked"),
        (grant.expires_at <= timezone.now(), "agent not used for too long"),
        (grant.client__disabled_at is not None, "agent's client disabled"),
        (not grant.person__is_active, "person deactivated"),
        (grant.person_stamp != stamp, "person has another password since"),
    )
    if reason := next((reason for applies, reason in reasons if applies), None):
        return reason
    if settings.CONFIGURATION.SignIn.RequireSecondFactor:
        person = Person.objects.filter(pk=grant.person_id).first()
        if person is None or second_factor.is_missing(person):
            return "no second factor, which is required"
    standing = account_status(
        grant.person_id, connection_id=grant.person__connection_id, checked_at=grant.person__directory_checked_at
    )
    if standing is AccountStatus.UNKNOWN:
        raise NotChecked
    return "person has left the directory" if standing is AccountStatus.LEFT else None


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
        grant.person_id,
        is_active=grant.person__is_active,
        is_superuser=grant.person__is_superuser,
        own_scopes=grant.person__scopes,
    )
    directory = DirectoryRef(
        id=grant.connection_id,
        name=grant.connection__name,
        client_id=grant.connection__client_id,
        protection_changes=grant.connection__protection_changes,
    )
    # Whoever belongs to a directory works on that one alone, whatever was once consented to.
    is_open = grant.connection__enabled and grant.person__connection_id in (None, grant.connection_id)
    username = grant.person__username
    return Call(
        person=PersonRef(id=grant.person_id, username=username, display_name=grant.person__display_name or username),
        credential=CredentialRef(
            kind=CredentialKind.AGENT_TOKEN,
            id=grant.client__client_id,
            name=grant.client__name,
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
    security.refused(reason, agent=None if grant is None else str(grant.id), **origin_of(request))
    return UnauthorizedAgent(metadata_url=resource_metadata_of(request), presented=presented)
