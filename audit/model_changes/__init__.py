"""Changes of the gateway's own tables: how they are described, and recorded in the log."""
