"""The operations on who may do what: people, roles, API keys, agents, permissions. Importing it declares them."""

from operations.access import (
    agent_clients,
    agents,
    api_keys,
    me,
    people,
    permission_groups,
    permissions,
    roles,
)

__all__ = [
    "agent_clients",
    "agents",
    "api_keys",
    "me",
    "people",
    "permission_groups",
    "permissions",
    "roles",
]
