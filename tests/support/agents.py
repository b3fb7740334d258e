"""Agents as they are after the sign-in: a client, a grant and its tokens, made straight in the database."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.test import Client
from django.utils import timezone
from oauth2_provider.models import set_token_value
from oauthlib.common import generate_token

from core.call import SupervisionLevel
from directory.models import DirectoryConnection
from keys.agents import scopes as table
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, stamp_of
from lab.directory import random_name
from tests.support.cast import Answer, make_person, send

AUDIENCE = "http://testserver/mcp"
"""The endpoint at the host that Django's test client asks for. A live gateway's is its own address."""
REDIRECT = "http://127.0.0.1/callback"


@dataclass
class Agent:
    """A grant with the values of its tokens, and a way to call with them."""

    grant: AgentGrant
    token: str
    refresh_token: str
    client: Client = field(default_factory=Client, repr=False)

    @property
    def person(self) -> Person:
        return self.grant.person

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request with the access token."""
        return send(self.client, method, path, body, **{"Authorization": f"Bearer {self.token}", **headers})


def make_client(**fields: Any) -> AgentClient:
    """A client that registered itself."""
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


def make_agent(
    connection: DirectoryConnection,
    *,
    person: Person | None = None,
    may: Iterable[str] | None = None,
    scopes: Iterable[str] | None = None,
    level: SupervisionLevel = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY,
    audience: str = AUDIENCE,
    client: AgentClient | None = None,
    **fields: Any,
) -> Agent:
    """An agent that a person has let do these scopes; by default all, of a person who may do all that any scope means.

    `may` are the permissions of the person made for it, `audience` the address of the endpoint that its tokens are for.
    """
    consented = list(table.SCOPES if scopes is None else scopes)
    if person is None:
        person = make_person(may=table.permissions_of(table.SCOPES) if may is None else may)
    client = client or make_client()
    now = timezone.now()
    grant = AgentGrant.objects.create(
        **{
            "person": person,
            "client": client,
            "connection": connection,
            "scopes": consented,
            "permissions": sorted(table.permissions_of(consented)),
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
    return Agent(grant=grant, token=token, refresh_token=refresh_token)
