"""Samba's domain controllers: how one is provisioned and run, and what is written past it into its database."""
