"""The pages of access: API keys, roles, people and connections."""
