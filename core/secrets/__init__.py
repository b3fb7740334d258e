"""Secrets: the gateway's own keys, what the database keeps encrypted, and files that nobody else reads."""
