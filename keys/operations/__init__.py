"""The operations of this app: who am I, roles, API keys, agents, people, permissions. Importing it declares them."""

from keys.operations import (
    agent_clients,
    agents,
    api_keys,
    effective_permissions,
    expiring_keys,
    key_usage,
    me,
    permission_groups,
    permissions,
    roles,
    users,
)

__all__ = [
    "agent_clients",
    "agents",
    "api_keys",
    "effective_permissions",
    "expiring_keys",
    "key_usage",
    "me",
    "permission_groups",
    "permissions",
    "roles",
    "users",
]
