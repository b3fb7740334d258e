"""The declared operations of this app, one module per resource."""

from audit.operations import operations_log

__all__ = ["operations_log"]
