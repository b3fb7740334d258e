"""Makes keys, people and agents straight in a gateway's database, with the gateway's settings."""
