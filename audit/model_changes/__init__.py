"""Changes of the gateway's own tables, none without its record."""
