"""The pages about access: API keys, agents, roles, people and connections."""
