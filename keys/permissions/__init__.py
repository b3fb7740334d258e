"""Which permissions a caller has now, where they hold, and whose accounts are protected against the caller."""
