"""Permissions: which there are, what they mean, where they hold, and which a caller has now."""
