"""Operations on people, roles, API keys, agents and permissions."""
