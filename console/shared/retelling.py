"""Sentences that operations keep or answer in English, told again in the reader's language.

Why a change waits is kept with it, warnings and hindrances are answered to programs too: all of these stay English
there. A person reads them here, and whatever is not known (`retold_sentences`, `retold_refusals`) as it is.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from string import Formatter
from typing import Final

from django.utils.translation import get_language, gettext

from console.shared.retold_refusals import DETAILS, TITLES
from console.shared.retold_sentences import SENTENCES
from core.operation import Risk
from core.text.vocabulary import capitalized, risk_words

_NESTED: Final = frozenset({"ground", "meaning", "why", "protection"})
"""Places of a sentence that hold what is told again itself."""


def retold(text: str) -> str:
    """An English sentence of the gateway's in the reader's language."""
    language = get_language() or "en"
    # A template's `_("…")` is a lazy text, which is no `str`.
    return text if language.startswith("en") else _retold(str(text), language)


@lru_cache(maxsize=4096)  # a page of many changes says the same of most of them
def _retold(text: str, language: str) -> str:
    for whole in (text, f"{text}.", f"{capitalized(text)}."):  # titles, and what an operation does, end otherwise
        if whole in _WHOLE:
            return gettext(whole).removesuffix("" if whole == text else ".")
    if (title := text.removesuffix(".")) in _WHOLE:
        return f"{gettext(title)}."
    for source, pattern in _PATTERNS:
        if found := pattern.fullmatch(text):
            return gettext(source).format(
                **{name: _place(name, value, language) for name, value in found.groupdict().items()}
            )
    return text


def _place(name: str, value: str, language: str) -> str:
    if name == "risk":
        return risk_words(value)
    return _retold(value, language) if name in _NESTED else value


def _pattern(source: str) -> re.Pattern[str]:
    return re.compile("".join(_parts(source)), re.DOTALL)


def _parts(source: str) -> Iterator[str]:
    for before, name, _spec, _conversion in Formatter().parse(source):
        yield re.escape(before)
        if name == "risk":
            yield f"(?P<risk>{'|'.join(Risk)})"
        elif name is not None:
            yield f"(?P<{name}>.+?)"


_KNOWN: Final = (*SENTENCES, *TITLES, *DETAILS)
_WHOLE: Final = frozenset(source for source in _KNOWN if "{" not in source)
_PATTERNS: Final = tuple((source, _pattern(source)) for source in _KNOWN if "{" in source)
