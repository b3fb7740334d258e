"""How agents and their clients are sent and answered. What is done with them is `operations.agents`' business."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from core.call import SupervisionLevel
from core.paging import PageQuery
from core.shapes import Body, Guid, Id, Moment, documented_as, render_timestamp
from core.text.names import require_label
from core.versions import version_of
from keys.agents.redirects import MAX_ADDRESSES, why_unacceptable
from keys.models.agents import NAME_LENGTH, AgentClient, AgentGrant, Ended

Level = Annotated[
    Literal["ask_every_change", "ask_destructive_security", "act"],
    Field(description="Which changes of the agent wait for a person's approval."),
]
Name = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, pattern=r"\S"), AfterValidator(require_label)]


def _require_acceptable(address: str) -> str:
    if why := why_unacceptable(address):
        raise ValueError(why)
    return address


Addresses = Annotated[
    list[Annotated[str, AfterValidator(_require_acceptable)]],
    Field(
        min_length=1,
        max_length=MAX_ADDRESSES,
        description="Where the answer of a sign-in may go: https, or http on 127.0.0.1, [::1] or localhost (any port).",
    ),
]


class SearchAgents(PageQuery):
    """The filters of the list; several of them narrow each other down."""

    person: Annotated[str | None, Field(description="User name of the person the agent acts for.")] = None
    client: Annotated[Guid | None, Field(description="The id of the agent's client.")] = None
    state: Annotated[Literal["active", "expired", "ended"] | None, Field(description="How the grant stands.")] = None


class UpdateAgent(Body):
    """What an administrator decides about one agent."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"supervisionLevel": "ask_every_change"}]})

    supervision_level: Level


class SearchAgentClients(PageQuery):
    """The filters of the list; several of them narrow each other down."""

    name: Annotated[str | None, Field(description="A part of the name, in any case.")] = None
    state: Annotated[Literal["active", "disabled"] | None, Field(description="How the client stands.")] = None


class CreateAgentClient(Body):
    """A client made by hand, as closed registration asks for."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "Help desk agent", "redirectUris": ["http://127.0.0.1/callback"]}]}
    )

    name: Name
    redirect_uris: Addresses


class AgentRecord(TypedDict):
    """What one person lets one agent do in one directory.

    `clientId` is the OAuth client's, which is also its `credentialId` in the operations log. `permissions` are what the
    scopes meant when the person consented; the agent may do those that the person holds too. `state` is `active`,
    `expired` (the agent has not come back in time) or `ended`. `version` changes with what people change, not by use.
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
    record: AgentRecord = {
        "id": str(grant.pk),
        "version": version_of({"level": grant.supervision_level, "ended": render_timestamp(grant.ended_at)}),
        "name": grant.client.name,
        "client": str(grant.client.pk),
        "clientId": grant.client.client_id,
        "person": grant.person.username,
        "personActive": grant.person.is_active,
        "directory": grant.connection.name,
        "scopes": list(grant.scopes),
        "permissions": list(grant.permissions),
        "supervisionLevel": grant.supervision_level,
        "state": grant.state,
        "createdAt": render_timestamp(grant.created_at),
        "expiresAt": render_timestamp(grant.expires_at),
        "lastUsedAt": render_timestamp(grant.last_used_at),
        "lastUsedAddress": grant.last_used_address or None,
        "endedAt": render_timestamp(grant.ended_at),
        "endedFor": grant.ended_for or None,
        "endedBy": grant.ended_by.username if grant.ended_by else None,
    }
    return record


def agent_client_as_json(client: AgentClient, *, agents: int) -> AgentClientRecord:
    addresses = client.redirect_uris.split()
    facts = {"name": client.name, "redirectUris": addresses, "disabled": client.disabled_at is not None}
    return {
        "id": str(client.pk),
        "version": version_of(facts),
        "clientId": client.client_id,
        "name": client.name,
        "redirectUris": addresses,
        "source": client.registration_source,
        "state": "active" if client.disabled_at is None else "disabled",
        "agents": agents,
        "createdAt": render_timestamp(client.created),
        "createdBy": client.created_by.username if client.created_by else None,
        "createdAddress": client.created_address or None,
    }
