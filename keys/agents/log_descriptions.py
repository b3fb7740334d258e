"""Agents and their clients as the operations log tells of them, and what makes one's access more."""

from dataclasses import dataclass
from datetime import datetime

from audit.model_changes.descriptions import Facts, audited_model
from core.shapes import render_timestamp
from keys.agents.grants import is_freer
from keys.models.agents import AgentClient, AgentGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAccess:
    """What of an agent people can make more after its person has consented: consenting lends what is the person's."""

    level: str
    ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAccess:
    """Where the codes of a client go, and whether it gets any."""

    addresses: tuple[str, ...]
    disabled: bool


def agent_access_widened(before: AgentAccess | None, after: AgentAccess) -> list[str]:
    """In words, what an agent may do after a change and could not do before."""
    if before is None or after.ended or not is_freer(after.level, than=before.level):
        return []
    return [f"fewer changes wait for a person ({before.level} before, {after.level} now)"]


def client_access_widened(before: ClientAccess | None, after: ClientAccess) -> list[str]:
    """The same of a client. A new one may do nothing before a person consents."""
    if before is None:
        return []
    reasons = []
    if set(after.addresses) - set(before.addresses):
        reasons.append("what people let the agent do is handed out at further addresses")
    if before.disabled and not after.disabled:
        reasons.append("people can connect the agent again")
    return reasons


@audited_model("agents", AgentGrant, widened_access=agent_access_widened)
def describe_agent(grant: AgentGrant) -> Facts:
    client, person = grant.client, grant.person
    return Facts(
        name=f"{client.name} for {person.username}",
        shown={
            "client": (client.client_id,),
            "clientName": (client.name,),
            "person": (person.username,),
            "directory": (grant.connection.name,),
            "scopes": tuple(grant.scopes),
            "permissions": tuple(grant.permissions),
            "supervisionLevel": (grant.supervision_level,),
            "endedAt": _moment(grant.ended_at),
            "endedFor": (grant.ended_for,) if grant.ended_for else (),
        },
        access=AgentAccess(level=grant.supervision_level, ended=grant.ended_at is not None),
    )


@audited_model("agent-clients", AgentClient, widened_access=client_access_widened)
def describe_client(client: AgentClient) -> Facts:
    addresses = tuple(client.redirect_uris.split())
    return Facts(
        name=client.name,
        shown={
            "name": (client.name,),
            "clientId": (client.client_id,),
            "redirectUris": addresses,
            "source": (client.registration_source,),
            "createdAddress": (client.created_address,) if client.created_address else (),
            "disabledAt": _moment(client.disabled_at),
        },
        access=ClientAccess(addresses=addresses, disabled=client.disabled_at is not None),
    )


def _moment(at: datetime | None) -> tuple[str, ...]:
    text = render_timestamp(at)
    return (text,) if text else ()
