"""Who may do what: people, roles, API keys, how each is identified and what it may do now."""
