"""Placeholders in the values of a template: `{office}` is filled in each time the template is used.

A name begins with a letter and goes on with letters, digits, spaces, `_`, `-` and `.`; case is ignored. A value with an
optional placeholder (`{mobile?}`) that stays empty is left out. Braces around anything else are literal.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_PLACEHOLDER = re.compile(r"\{([^\W\d_][\w .-]{0,59})(\?)?\}")

PREDEFINED: Final = frozenset({"first name", "last name", "name", "account name", "today"})
"""Placeholders that the person and the day fill, so that nobody is asked for them."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A placeholder as it is first spelled; `key` ignores case."""

    name: str
    is_optional: bool

    @property
    def key(self) -> str:
        return self.name.casefold()


def placeholders_to_fill(values: Iterable[str]) -> list[Placeholder]:
    """The placeholders that somebody must fill, each once. One is optional only if all its occurrences are."""
    found: dict[str, Placeholder] = {}
    for value in values:
        for match in _PLACEHOLDER.finditer(value):
            placeholder = Placeholder(match[1].strip(), bool(match[2]))
            known = found.get(placeholder.key)
            if known is None or (known.is_optional and not placeholder.is_optional):
                found[placeholder.key] = placeholder
    return [placeholder for key, placeholder in found.items() if key not in PREDEFINED]


def sole_placeholder(value: str) -> str | None:
    """The key of the placeholder that a value consists of; None for any other value."""
    match = _PLACEHOLDER.fullmatch(value.strip())
    return match[1].strip().casefold() if match else None


def fill_placeholders(value: str, given: Mapping[str, str]) -> str | None:
    """A value with what is given for its placeholders by their keys; None where something is missing."""
    texts = [given.get(match[1].strip().casefold(), "").strip() for match in _PLACEHOLDER.finditer(value)]
    if not all(texts):
        return None
    remaining = iter(texts)
    return _PLACEHOLDER.sub(lambda _: next(remaining), value)
