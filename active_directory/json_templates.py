"""Templates of JSON that C fills with the values of an entry, where it is compiled (`_json.c`).

A template only writes. Which values there are to write was decided before, and what `decoder` makes of a value is what
it makes of it, too, or nothing.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from active_directory.codecs import compiled_form
from active_directory.entry import Entry
from active_directory.schema import AttributeType

try:
    from active_directory._answers import fill, prepare

    _is_compiled = True
except ImportError:
    _is_compiled = False

Given = bytes | str | bool | None
"""A part that the caller decides: octets are JSON already."""
Template = Callable[[Entry, tuple[Given, ...]], bytes | None]
"""The JSON; None if Python must make it, because of a value that is unusual."""

MOMENT, HEXADECIMAL = "m", "x"
"""Forms besides those of values: a FILETIME or null, and a number."""


class Part(NamedTuple):
    """A literal, and behind it the first value of an attribute, or null, or `all` of them, or one of those given."""

    literal: bytes
    form: str = "-"
    attribute: str = ""
    all: bool = False
    given: int = 0


def part_of(literal: bytes, name: str, attribute: AttributeType | None, *, all: bool = False) -> Part | None:
    """The values of an attribute as `decoder` makes them; None if C cannot."""
    form = compiled_form(attribute)
    return None if form is None else Part(literal, form, name, all)


def given(literal: bytes, number: int) -> Part:
    return Part(literal, "p", given=number)


def template_of(parts: Iterable[Part | None]) -> Template | None:
    """The template with these parts; None where C is not compiled or cannot make one of them."""
    known = tuple(parts)
    if not _is_compiled or None in known:
        return None
    prepared = prepare(known)  # type: ignore[arg-type]
    return lambda entry, given: fill(prepared, entry.attributes, given)  # type: ignore[arg-type]
