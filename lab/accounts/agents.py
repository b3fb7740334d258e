"""Makes agents as they are after their sign-in, straight in the database: a client, a grant and its tokens."""

import hashlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from django.utils import timezone
from oauth2_provider.models import set_token_value
from oauthlib.common import generate_token

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys.agents import scopes as scope_table
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, stamp_of
from lab.directory import random_name

REDIRECT = "http://127.0.0.1/callback"


class Tokens(NamedTuple):
    """A grant with the values of its tokens."""

    grant: AgentGrant
    token: str
    refresh_token: str


def make_client(**fields: Any) -> AgentClient:
    """Make a client that registered itself (RFC 7591)."""
    return AgentClient.objects.create(
        **{
            "client_id": random_name("client"),
            "name": random_name("agent"),
            "redirect_uris": REDIRECT,
            "client_type": AgentClient.CLIENT_PUBLIC,
            "authorization_grant_type": AgentClient.GRANT_AUTHORIZATION_CODE,
            "registration_source": AgentClient.RegistrationSource.DCR,
            **fields,
        }
    )


def make_tokens(
    connection: DirectoryConnection,
    person: Person,
    *,
    audience: str,
    scopes: Iterable[str] | None = None,
    level: SupervisionLevel = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY,
    client: AgentClient | None = None,
    **fields: Any,
) -> Tokens:
    """Make an agent to which a person has granted scopes, by default all; `audience` is the endpoint of its tokens."""
    consented = list(scope_table.SCOPES if scopes is None else scopes)
    client = client or make_client()
    now = timezone.now()
    grant = AgentGrant.objects.create(
        **{
            "person": person,
            "client": client,
            "connection": connection,
            "scopes": consented,
            "permissions": sorted(scope_table.permissions_of(consented)),
            "supervision_level": level.value,
            "code_digest": hashlib.sha256(uuid4().bytes).hexdigest(),
            "code_used_at": now,
            "person_stamp": stamp_of(person.password, person.session_epoch),
            "expires_at": now + timedelta(days=30),
            **fields,
        }
    )
    token, refresh_token = generate_token(), generate_token()
    of_grant = {"application": client, "grant": grant, "resource": [audience]}
    access = AgentAccessToken(expires=now + timedelta(minutes=15), scope=" ".join(consented), **of_grant)
    set_token_value(access, token)
    access.save()
    refreshing = AgentRefreshToken(access_token=access, token_family=grant.id, **of_grant)
    set_token_value(refreshing, refresh_token)
    refreshing.save()
    return Tokens(grant, token, refresh_token)
