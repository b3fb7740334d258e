"""From a connection to a client, and from a reference to an entry inside the caller's scopes."""
