"""What the directory is certain to refuse, and what takes it long: told before a change is made."""
