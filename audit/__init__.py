"""The operations log: written before and after each change, append-only, sealed, and told to webhooks."""
