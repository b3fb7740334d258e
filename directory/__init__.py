"""Directories and their objects: reading, proposing changes, protection, and runs over many accounts."""
