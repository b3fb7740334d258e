"""The operations of this app: who am I, roles, API keys, people, permissions."""
