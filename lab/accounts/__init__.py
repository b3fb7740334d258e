"""Keys, people and agents of a gateway, made straight in its database. They need the gateway's settings."""
