"""API keys as such: their secret, their life from issue to revocation, their addresses and their use."""
