"""What people call what was done: the label of an operation, with the name of its object in the place of the braces."""

from collections.abc import Mapping
from typing import Final

from django.utils.translation import gettext_noop

from audit.model_changes.descriptions import label_of_change
from core.operation import find_operation
from core.text.messages import translated
from core.text.vocabulary import capitalized, humanize
from directory.shapes.wording.value_words import Named, Phrase, plain

_ONLY_RECORDED: Final[Mapping[str, str]] = {
    "people.activate": gettext_noop("Activate {a person}"),
    "people.deactivate": gettext_noop("Deactivate {a person}"),
}
"""What a directory does to people is recorded, and is no operation."""


def operation_label(name: str) -> str:
    """The label of an operation, or of a change that is recorded under this name, in the reader's language."""
    try:
        label = find_operation(name).label
    except KeyError:
        resource, _dot, action = name.partition(".")
        # The log may hold names of earlier releases.
        unknown = f"{capitalized(humanize(action))} {{{humanize(resource)}}}"
        label = _ONLY_RECORDED.get(name) or label_of_change(resource, action) or unknown
    return translated(label)


def operation_phrase(name: str, object: Named | str | Phrase = "") -> Phrase:
    """`Read Ada Lovelace`; without an object `Read a user`."""
    before, _brace, rest = operation_label(name).partition("{")
    usual, _brace, after = rest.partition("}")
    named = object if isinstance(object, tuple) else (object or usual,)
    return tuple(part for part in (before, *named, after) if part)


def operation_words(name: str, object: str = "") -> str:
    """The same as text, with a capital letter at its beginning."""
    return capitalized(plain(operation_phrase(name, object)))
