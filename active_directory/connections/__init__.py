"""Connections to domain controllers: how they are opened, pooled and authenticated."""
