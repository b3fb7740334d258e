"""The tables of Django admin that operations change: forms over the operations, without a rule of their own."""

from console.admin import access, connections

__all__ = ["access", "connections"]
