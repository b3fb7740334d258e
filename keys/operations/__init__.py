"""The operations of this app: who am I, roles, API keys, people, permissions. Importing it declares them."""

from keys.operations import api_keys, effective_permissions, expiring_keys, key_usage, me, permissions, roles, users

__all__ = ["api_keys", "effective_permissions", "expiring_keys", "key_usage", "me", "permissions", "roles", "users"]
