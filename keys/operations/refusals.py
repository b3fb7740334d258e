"""The refusal of one member of a body, as the operations of this app word it."""

from gateway.core.errors import InvalidRequest


def invalid_member(member: str, detail: str) -> InvalidRequest:
    """`member` is the JSON pointer's path, `role` or `scopes/0`."""
    return InvalidRequest.naming(detail, pointer=f"#/{member}", sentence=f"#/{member}: {detail}")
