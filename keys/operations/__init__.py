"""The operations of this app: who am I, roles, API keys, people, permissions. Importing it declares them."""

from keys.operations import api_keys, expiring_keys, me, permissions, roles, users

__all__ = ["api_keys", "expiring_keys", "me", "permissions", "roles", "users"]
