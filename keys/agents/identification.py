"""From an agent's token to its `Call`, or to a refusal that reveals no reason.

The token, its grant, the client, the person and what they may do now are judged anew at each request. `server` issues
the tokens.
"""

import hashlib
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from audit import security
from core.call import Call, CredentialKind, CredentialRef, SupervisionLevel, Surface
from core.errors import AmbiguousCredential, Forbidden, Unauthorized
from core.secrets.encryption import EncryptedTextField
from core.shapes import parse_guid
from directory.models import DirectoryConnection
from keys import api_keys
from keys.agents import scopes
from keys.agents.metadata import audience_of, resource_metadata_of
from keys.callers import client_address, note_caller, origin_of
from keys.models.agents import AgentAccessToken, AgentGrant, stamp_of
from keys.people.account_status import AccountStatus, NotChecked, account_status
from keys.permissions.cache import access_of_person, kept_facts, may_have_been_looked_up
from keys.permissions.effective import reference_to, reference_to_directory
from keys.sign_in import second_factor

MAX_TOKEN = 512
"""Characters. Longer values are not our tokens, and hashing them would only cost time."""

_DECIDING = ("client", "person", "connection")
"""Rows that a grant's call depends on besides the grant."""
_SECRETS = tuple(
    f"connection__{column.name}"
    for column in DirectoryConnection._meta.concrete_fields
    if isinstance(column, EncryptedTextField)
)
"""Columns that are not read: they would be decrypted and then cached in memory with the rest."""


class UnauthorizedAgent(Unauthorized):
    """No usable agent token. The header leads a client to the sign-in (RFC 9728 section 5.1).

    The refusal reveals only whether a token was presented, never what was wrong with it.
    """

    def __init__(self, *, metadata_url: str, presented: bool) -> None:
        super().__init__()
        error = ', error="invalid_token"' if presented else ""
        self.headers["WWW-Authenticate"] = (
            f'Bearer realm="directory-gateway"{error}, resource_metadata="{metadata_url}"'
        )


def identify_agent(request: HttpRequest) -> Call:
    """The call of an agent, which must present a bearer token of its own sign-in and nothing else.

    Raises UnauthorizedAgent, AmbiguousCredential if another credential comes with the token, or NotChecked.
    """
    authorization = request.headers.get("Authorization")
    if authorization is not None and "X-API-Key" in request.headers:
        raise AmbiguousCredential
    if authorization is None:
        raise _refusal(request, "no agent token", presented="X-API-Key" in request.headers)
    if "access_token" in request.GET:  # URLs end up in logs and histories (RFC 9700 section 4.3.2)
        raise _refusal(request, "token in the query")
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() != "bearer" or not 0 < len(value) <= MAX_TOKEN:
        raise _refusal(request, "no bearer token at the agent endpoint")
    checksum = hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()
    token = kept_facts.find(("agent token", checksum), lambda: _read_token(checksum), _may_be_old)
    if token is None:
        raise _refusal(request, "unknown agent token")
    grant = token.grant
    reason = "agent token expired" if token.expires <= timezone.now() else None
    if token.resource != [audience_of(request)]:  # another resource could replay a token that it was sent (RFC 8707)
        reason = "agent token for another audience"
    try:
        reason = reason or _refusal_reason(grant)
    except NotChecked:
        security.log_refusal("person not checked for too long", agent=str(grant.id), **origin_of(request))
        raise
    if reason:
        raise _refusal(request, reason, grant=grant)
    address = client_address(request)
    api_keys.note_use(grant, address=address)
    call = _call_of(
        grant,
        surface=Surface.AGENT,
        # The agent may have asked for a token with fewer scopes than the person consented to.
        narrowed_to=token.scope.split(),
        expires_at=token.expires,
        client_address=address or None,
        request_id=getattr(request, "request_id", ""),
    )
    return note_caller(request, call)


def _read_token(checksum: str) -> AgentAccessToken | None:
    """The token with everything that decides about it, in one query."""
    tokens = AgentAccessToken.objects.select_related(*(f"grant__{name}" for name in _DECIDING))
    tokens = tokens.defer(*(f"grant__{name}" for name in _SECRETS)).order_by()
    found: AgentAccessToken | None = tokens.filter(token_checksum=checksum).first()
    return found


def _may_be_old(token: AgentAccessToken) -> bool:
    return may_have_been_looked_up(token.grant.person)


def call_for_agent(grant_id: UUID | str, *, connection_id: UUID, **request: Any) -> Call:
    """A call for work done later for an agent, with everything checked anew.

    `request` are the members of the call that the grant does not decide. Raises Forbidden, or NotChecked while the
    person's directory does not answer.
    """
    wanted = grant_id if isinstance(grant_id, UUID) else parse_guid(grant_id)
    grants = AgentGrant.objects.select_related(*_DECIDING).defer(*_SECRETS).order_by()
    grant = grants.filter(pk=wanted, connection_id=connection_id).first() if wanted else None
    if grant is None or _refusal_reason(grant) is not None:
        raise Forbidden
    call = _call_of(grant, **request)
    if call.directory is None:
        raise Forbidden
    return call


def _refusal_reason(grant: AgentGrant) -> str | None:
    """Why a grant cannot be used now, for the security log; None if it can.

    Raises NotChecked while it is unknown whether the person is still in their directory.
    """
    person = grant.person
    reasons = (
        (not settings.CONFIGURATION.Agents.Enabled, "agents are switched off"),
        (grant.ended_at is not None, "agent revoked"),
        (grant.expires_at <= timezone.now(), "agent not used for too long"),
        (grant.client.disabled_at is not None, "agent's client disabled"),
        (not person.is_active, "person deactivated"),
        (grant.person_stamp != stamp_of(person.password, person.session_epoch), "person has another password since"),
    )
    if reason := next((reason for applies, reason in reasons if applies), None):
        return reason
    if second_factor.is_missing(person):
        return "no second factor, which is required"
    status = account_status(person)
    if status is AccountStatus.UNKNOWN:
        raise NotChecked
    return "person has left the directory" if status is AccountStatus.LEFT else None


def _call_of(
    grant: AgentGrant,
    *,
    narrowed_to: list[str] | None = None,
    expires_at: datetime | None = None,
    **facts: Any,
) -> Call:
    """The call of a usable grant: the agent may do what the person consented to and holds now, within their scopes."""
    person, consented = grant.person, frozenset(grant.permissions)
    if narrowed_to is not None:
        consented &= scopes.permissions_of(narrowed_to)
    held = access_of_person(person)
    # People of a directory work on that one only, even if they once consented for another.
    is_open = grant.connection.enabled and person.connection_id in (None, grant.connection_id)
    return Call(
        person=reference_to(person),
        credential=CredentialRef(
            kind=CredentialKind.AGENT_TOKEN,
            id=grant.client.client_id,
            name=grant.client.name,
            expires_at=expires_at,
            grant_id=grant.id,
            withdraws_own_only=scopes.WITHDRAW_ALL not in (grant.scopes if narrowed_to is None else narrowed_to),
        ),
        permissions=held.permissions & consented,
        scopes=held.scopes,
        supervision=SupervisionLevel(grant.supervision_level),
        directory=reference_to_directory(grant.connection) if is_open else None,
        directory_refusal=None if is_open else Forbidden,
        **facts,
    )


def _refusal(
    request: HttpRequest, reason: str, *, presented: bool = True, grant: AgentGrant | None = None
) -> UnauthorizedAgent:
    security.log_refusal(reason, agent=None if grant is None else str(grant.id), **origin_of(request))
    return UnauthorizedAgent(metadata_url=resource_metadata_of(request), presented=presented)
