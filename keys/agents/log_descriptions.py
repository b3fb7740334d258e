"""Agents and their clients as the operations log tells of them, and what makes one's access more."""

from collections.abc import Mapping
from typing import Any

from audit.model_changes.descriptions import Facts, audited_model, columns_of
from core.text.messages import message
from keys.agents.grants import is_freer
from keys.models.agents import AgentClient, AgentGrant

Access = Mapping[str, Any]


def agent_access_widened(before: Access | None, after: Access) -> list[str]:
    """In words, what an agent may do after a change and could not do before. Consenting lends what is the person's."""
    if before is None or after["ended"] or not is_freer(after["level"], than=before["level"]):
        return []
    return [
        message(
            "fewer changes wait for a person ({before} before, {after} now)",
            before=before["level"],
            after=after["level"],
        )
    ]


def client_access_widened(before: Access | None, after: Access) -> list[str]:
    """The same of a client: where its codes go, and whether it gets any. A new one waits for a person's consent."""
    if before is None:
        return []
    reasons: list[str] = []
    if set(after["addresses"]) - set(before["addresses"]):
        reasons.append(message("what people let the agent do is handed out at further addresses"))
    if before["disabled"] and not after["disabled"]:
        reasons.append(message("people can connect the agent again"))
    return reasons


@audited_model("agents", AgentGrant, one=message("an agent"), widened_access=agent_access_widened)
def describe_agent(grant: AgentGrant) -> Facts:
    client, person = grant.client, grant.person
    return Facts(
        name=f"{client.name} for {person.username}",
        shown={
            "client": client.client_id,
            "clientName": client.name,
            "person": person.username,
            "directory": grant.connection.name,
            **columns_of(grant, "scopes", "permissions", "supervision_level", "ended_at", "ended_for"),
        },
        access={"level": grant.supervision_level, "ended": grant.ended_at is not None},
    )


@audited_model("agent-clients", AgentClient, one=message("an agent client"), widened_access=client_access_widened)
def describe_client(client: AgentClient) -> Facts:
    addresses = tuple(client.redirect_uris.split())
    return Facts(
        name=client.name,
        shown={
            **columns_of(client, "name", "client_id", "created_address", "disabled_at"),
            "redirectUris": addresses,
            "source": client.registration_source,
        },
        access={"addresses": addresses, "disabled": client.disabled_at is not None},
    )
