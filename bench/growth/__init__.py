"""Measures what becomes dearer as directory and log grow: `make bench ARGS="--only growth"`."""

OLD_OWNER = "long-gone"
OLD_OBJECT = "00000000-0000-0000-0000-00000000abcd"
"""Whose records, and of what, there are among the oldest of the log alone."""
