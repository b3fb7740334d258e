"""Labels of attributes and operations for people. Pages show an attribute's own name beside it where there is room.

An operation is declared with its label, which has its object in braces.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from django.utils.translation import gettext, gettext_noop

from audit.model_changes.descriptions import label_of_change
from core.operation import find_operation
from core.text.messages import translated
from core.text.vocabulary import capitalized, humanize
from directory.shapes.wording.value_words import NamedObject, Phrase, plain_text

LABELS: Final[Mapping[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_BY_NAME: Final = {name.lower(): label for name, label in LABELS.items()}


def label_of(attribute: str) -> str:
    """The label of an attribute in the reader's language; its own name where it has none."""
    label = _BY_NAME.get(attribute.lower())
    return attribute if label is None else gettext(label)


_ONLY_RECORDED: Final[Mapping[str, str]] = {
    "people.activate": gettext_noop("Activate {a person}"),
    "people.deactivate": gettext_noop("Deactivate {a person}"),
}
"""Changes that the log records although they are no operations: a directory makes them to people."""


def operation_label(name: str) -> str:
    """The label of an operation, or of a change recorded under this name, in the reader's language."""
    try:
        label = find_operation(name).label
    except KeyError:
        resource, _dot, action = name.partition(".")
        # The log may have names of operations from earlier releases.
        unknown = f"{capitalized(humanize(action))} {{{humanize(resource)}}}"
        label = _ONLY_RECORDED.get(name) or label_of_change(resource, action) or unknown
    return translated(label)


def operation_phrase(name: str, object: NamedObject | str | Phrase = "") -> Phrase:
    """An operation with its object, such as `Read Ada Lovelace`, or without one `Read a user`."""
    before, _brace, rest = operation_label(name).partition("{")
    usual, _brace, after = rest.partition("}")
    named = object if isinstance(object, tuple) else (object or usual,)
    return tuple(part for part in (before, *named, after) if part)


def operation_words(name: str, object: str = "") -> str:
    """The same as `operation_phrase`, as text with a capital first letter."""
    return capitalized(plain_text(operation_phrase(name, object)))
