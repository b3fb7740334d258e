"""The texts that people read as they are declared: the catalogue has them beside what the sources mark."""

from collections.abc import Iterator
from importlib import import_module

from approvals.security_attributes import REVIEWED
from core.errors import every_error
from core.operation import Effect, operations
from core.text.messages import Message
from core.text.vocabulary import WORDS
from directory.shapes.wording.attribute_labels import LABELS
from keys.permission_catalogue import MEANINGS


def registered_texts() -> Iterator[str]:
    """What is said of errors, operations, permissions and attributes, and the words that nothing declares."""
    for module in ("gateway.urls", "gateway.tasks"):
        import_module(module)  # what answers requests and works on them has then declared its texts
    for error in every_error():
        yield error.title
    for operation in operations():
        if not isinstance(operation.label, Message):
            yield operation.label
        if operation.effect is not Effect.READ:
            yield operation.summary
    for meaning in MEANINGS.values():
        yield from filter(None, (meaning.group, meaning.title, meaning.text, meaning.danger))
    yield from (*LABELS.values(), *WORDS)
    for review in REVIEWED.values():
        if review.verdict in ("security", "unwritable"):
            yield review.reason
