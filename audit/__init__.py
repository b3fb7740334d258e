"""The operations log: written before and after each change, append-only, sealed, and sent to webhooks."""
