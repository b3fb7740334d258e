"""Secrets: the gateway's own keys, encrypted and digested values in the database, files that only its account reads."""
