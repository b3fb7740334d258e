"""Agents and their clients as JSON. `operations.access.agents` and `agent_clients` work with them."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from core.call import SupervisionLevel
from core.database.own_rows import version_of
from core.paging import PageQuery
from core.shapes import Body, Guid, Id, Moment, as_record, documented_as, example, render_timestamp
from core.text.names import require_label
from keys.agents.clients import MAX_REDIRECT_URIS, redirect_uri_problem
from keys.models.agents import NAME_LENGTH, AgentClient, AgentGrant, Ended

Level = Annotated[
    Literal["ask_every_change", "ask_destructive_security", "act"],
    Field(description="Which changes of the agent wait for a person's approval."),
]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, pattern=r"\S"), AfterValidator(require_label)]


def _require_acceptable(address: str) -> str:
    if why := redirect_uri_problem(address):
        raise ValueError(why)
    return address


Addresses = Annotated[
    list[Annotated[str, AfterValidator(_require_acceptable)]],
    Field(
        min_length=1,
        max_length=MAX_REDIRECT_URIS,
        description="Where the answer of a sign-in may go: https, http on 127.0.0.1, [::1] or localhost (any port), "
        "or a scheme of `Agents:RedirectSchemes`.",
    ),
]


class SearchAgents(PageQuery):
    """The filters of the list; several of them narrow each other down."""

    person: str | None = Field(None, description="User name of the person the agent acts for.")
    client: Guid | None = Field(None, description="The id of the agent's client.")
    state: Literal["active", "expired", "ended"] | None = Field(None, description="How the grant stands.")


class UpdateAgent(Body):
    """What an administrator decides about one agent."""

    model_config = example(supervisionLevel="ask_every_change")

    supervision_level: Level


class SearchAgentClients(PageQuery):
    """The filters of the list; several of them narrow each other down."""

    name: str | None = Field(None, description="A part of the name, in any case.")
    state: Literal["active", "disabled"] | None = Field(None, description="How the client stands.")


class CreateAgentClient(Body):
    """A client made by hand, as closed registration asks for."""

    model_config = example(name="Help desk agent", redirectUris=["http://127.0.0.1/callback"])

    name: Name
    redirect_uris: Addresses


class AgentRecord(TypedDict):
    """What one person allows one agent to do in one directory.

    `clientId` is the id of the OAuth client, which is also its `credentialId` in the operations log. `permissions` are
    what the scopes meant when the person consented; the agent may use those that the person still holds. `state` is
    `active`, `expired` (the agent has not come back in time) or `ended`. Use does not change `version`.
    """

    id: Id
    version: str
    name: str
    client: Id
    clientId: str
    person: str
    personActive: bool
    directory: str
    scopes: list[str]
    permissions: list[str]
    supervisionLevel: Annotated[str, documented_as(SupervisionLevel)]
    state: Literal["active", "expired", "ended"]
    createdAt: Moment | None
    expiresAt: Moment | None
    lastUsedAt: Moment | None
    lastUsedAddress: str | None
    endedAt: Moment | None
    endedFor: Annotated[str, documented_as(Ended)] | None
    endedBy: str | None


class AgentClientRecord(TypedDict):
    """A program that people can connect. `agents` counts the active grants; `source` is how it came to be."""

    id: Id
    version: str
    clientId: str
    name: str
    redirectUris: list[str]
    source: Literal["manual", "dcr", "cimd"]
    state: Literal["active", "disabled"]
    agents: int
    createdAt: Moment | None
    createdBy: str | None
    createdAddress: str | None


def agent_as_json(grant: AgentGrant) -> AgentRecord:
    return as_record(
        AgentRecord,
        grant,
        version=version_of({"level": grant.supervision_level, "ended": render_timestamp(grant.ended_at)}),
        name=grant.client.name,
        client=str(grant.client.pk),
        clientId=grant.client.client_id,
        person=grant.person.username,
        personActive=grant.person.is_active,
        directory=grant.connection.name,
        lastUsedAddress=grant.last_used_address or None,
        endedFor=grant.ended_for or None,
        endedBy=grant.ended_by and grant.ended_by.username,
    )


def agent_client_as_json(client: AgentClient, *, agents: int) -> AgentClientRecord:
    addresses, is_disabled = client.redirect_uris.split(), client.disabled_at is not None
    return as_record(
        AgentClientRecord,
        client,
        version=version_of({"name": client.name, "redirectUris": addresses, "disabled": is_disabled}),
        redirectUris=addresses,
        source=client.registration_source,
        state="disabled" if is_disabled else "active",
        agents=agents,
        createdAt=render_timestamp(client.created),
        createdBy=client.created_by and client.created_by.username,
        createdAddress=client.created_address or None,
    )
