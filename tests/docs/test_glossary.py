"""The words of `docs/glossary.md` are used: none that it forbids is in a text that somebody reads."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from lab.commands import PROJECT
from tests.docs.pages import pages, prose
from tests.support.catalogue import entries

GLOSSARY = PROJECT / "docs" / "glossary.md"
_ONLY_GERMAN = " (in German)"
_ABOUT_THE_PROJECT = frozenset({GLOSSARY, PROJECT / "CHANGELOG.md"})


@cache
def _forbidden() -> tuple[str, ...]:
    rows = [line.split("|") for line in GLOSSARY.read_text("utf-8").splitlines() if line.count("|") == 5]
    return tuple(word.strip() for row in rows[2:] for word in row[4].split(","))


def _found(word: str, text: str) -> re.Match[str] | None:
    """As a word of its own, and in German with the endings of its declension too."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?:en|n|s|e|er)?(?![\w-])", text, re.IGNORECASE)


def _texts_of(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for name, value in document.items():
            if name in ("summary", "description", "title") and isinstance(value, str):
                yield value
            else:
                yield from _texts_of(value)
    elif isinstance(document, list):
        for value in document:
            yield from _texts_of(value)


@cache
def _english() -> tuple[str, ...]:
    messages = (text for entry in entries() for text in (entry.text.english, entry.text.plural or ""))
    documents = (json.loads((PROJECT / f"docs/openapi/{name}.json").read_text("utf-8")) for name in ("api", "rest"))
    written = (prose(page) for page in pages() if page not in _ABOUT_THE_PROJECT)
    return (*messages, *(text for document in documents for text in _texts_of(document)), *written)


@cache
def _german() -> tuple[str, ...]:
    return tuple(text for entry in entries() for text in entry.german)


def test_the_table_is_read() -> None:
    assert {"Änderungsanfrage", "take back", "Passwort"} <= {*_forbidden()}
    assert _found("Änderungsanfrage", "drei Änderungsanfragen")
    assert not _found("log on", "logon hours")


@pytest.mark.parametrize("word", _forbidden())
def test_no_forbidden_word_is_used(word: str) -> None:
    texts = _german() if word.endswith(_ONLY_GERMAN) else (*_english(), *_german())
    sought = word.removesuffix(_ONLY_GERMAN)
    assert [
        text if len(text) < 300 else text[found.start() - 60 : found.end() + 60]
        for text in texts
        if (found := _found(sought, text))
    ] == []
