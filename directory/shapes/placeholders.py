"""Placeholders in the values of a template: `{office}` stands for what is filled in each time it is used.

A name begins with a letter and goes on with letters, digits, spaces, `_`, `-` and `.`; capitals do not count. With a
`?` behind it (`{mobile?}`) it may stay empty, and the value is left out then. Braces around anything else stand for
themselves.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_PLACEHOLDER = re.compile(r"\{([^\W\d_][\w .-]{0,59})(\?)?\}")

KNOWN: Final = frozenset({"first name", "last name", "name", "account name", "today"})
"""What the person and the day say themselves, so that nobody is asked for it."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One as it is written first. `key` is what it is known by, whatever its capitals."""

    name: str
    is_optional: bool

    @property
    def key(self) -> str:
        return self.name.casefold()


def asked_in(values: Iterable[str]) -> list[Placeholder]:
    """What somebody is asked for, each once; it is optional where it is so wherever it stands."""
    found: dict[str, Placeholder] = {}
    for value in values:
        for match in _PLACEHOLDER.finditer(value):
            placeholder = Placeholder(match[1].strip(), bool(match[2]))
            known = found.get(placeholder.key)
            if known is None or (known.is_optional and not placeholder.is_optional):
                found[placeholder.key] = placeholder
    return [placeholder for key, placeholder in found.items() if key not in KNOWN]


def only_placeholder(value: str) -> str | None:
    """The key of the placeholder that a value consists of, if it is nothing else."""
    match = _PLACEHOLDER.fullmatch(value.strip())
    return match[1].strip().casefold() if match else None


def filled(value: str, given: Mapping[str, str]) -> str | None:
    """A value with what is given for its placeholders by their keys; None where something is missing."""
    texts = [given.get(match[1].strip().casefold(), "").strip() for match in _PLACEHOLDER.finditer(value)]
    if not all(texts):
        return None
    remaining = iter(texts)
    return _PLACEHOLDER.sub(lambda _: next(remaining), value)
