"""The declared operations of this app, one module per noun."""

from approvals.operations import change_requests

__all__ = ["change_requests"]
