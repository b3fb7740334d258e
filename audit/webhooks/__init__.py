"""Webhooks: the events, their endpoints, and their delivery."""
