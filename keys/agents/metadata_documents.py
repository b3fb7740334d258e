"""Clients by their id: those of the database, and those whose id is the address of their own metadata."""

from keys.agents.models import AgentClient

MAX_CLIENT_ID = 64
"""Characters. The operations log keeps no more."""


def find_client(client_id: object) -> AgentClient | None:
    """The client of an id; None when there is none."""
    if not isinstance(client_id, str) or len(client_id) > MAX_CLIENT_ID or "\0" in client_id:
        return None
    return AgentClient.objects.filter(client_id=client_id).first()
