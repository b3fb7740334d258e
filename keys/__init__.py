"""People, roles, API keys and agents: how callers are identified, and what they may do now."""
