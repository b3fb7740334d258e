"""Signing in at a provider by OpenID Connect: its answers are verified here, and name a person of a directory."""
