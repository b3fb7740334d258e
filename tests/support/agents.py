"""Agents after the sign-in, which call as their person."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.test import Client

from directory.models import DirectoryConnection
from keys.agents import scopes as scope_table
from keys.models import Person
from keys.models.agents import AgentGrant
from lab.accounts.agents import make_tokens
from tests.support.cast import Answer, make_person, send

AUDIENCE = "http://testserver/mcp"
"""The endpoint at the host that Django's test client asks for. A live gateway's is its own address."""


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


def make_agent(
    connection: DirectoryConnection,
    *,
    person: Person | None = None,
    may: Iterable[str] | None = None,
    audience: str = AUDIENCE,
    **fields: Any,
) -> Agent:
    """An agent with tokens; see `make_tokens` for the fields.

    By default it acts for a person who may do all that any scope means; `may` are other permissions for that person.
    """
    if person is None:
        person = make_person(may=scope_table.permissions_of(scope_table.SCOPES) if may is None else may)
    return Agent(*make_tokens(connection, person, audience=audience, **fields))
