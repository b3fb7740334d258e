"""The declared operations of this app, one module per resource."""

from approvals.operations import change_requests, conversation, inbox, together

__all__ = ["change_requests", "conversation", "inbox", "together"]
