"""The texts that people read as they are declared: the catalogue has them beside what the sources mark."""

from collections.abc import Iterator

from approvals.security_attributes import REVIEWED
from core.errors import every_error
from core.operation import Effect, operations
from core.text.messages import Message


def registered_texts() -> Iterator[str]:
    """Of errors, operations and attributes of security what is said of them, once every app is loaded."""
    for error in every_error():
        yield error.title
    for operation in operations():
        if not isinstance(operation.label, Message):
            yield operation.label
        if operation.effect is not Effect.READ:
            yield operation.summary
    for review in REVIEWED.values():
        if review.verdict in ("security", "unwritable"):
            yield review.reason
