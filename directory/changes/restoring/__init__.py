"""Restoring a deleted object: where and as what it lives again, and what comes back with it."""
