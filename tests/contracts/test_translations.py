"""Every text that a person reads in the console is in German too, and programs get English whatever they accept."""

import gettext
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.conf import settings
from django.template.base import Lexer, TokenType
from django.test import Client

from console.shared.texts import script_texts
from lab.commands import PROJECT
from tests.support.cast import Console, make_person
from tests.support.catalogue import CATALOGUE, Entry, entries, marked_texts, templates
from tests.support.house import FOLDERS

IN_ENGLISH = ("approvals/mail/",)
"""Below `templates/`: a mail goes to several people, of whom no browser has said a language."""
NAMES = {
    *("Directory Management Gateway", "· Directory Management Gateway", "CSV", "NDJSON", "PowerShell", "SDDL", "SID"),
    *("StartTLS", "TLS", "(UTC)", "dsacls"),
}
"""What is called so in every language."""
READ_ALOUD = ("title", "aria-label", "placeholder", "alt", "data-label", "data-confirm", "data-counts")
"""Attributes whose values people read or hear."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_ARGUMENT = re.compile(
    r"""\b(?:label|title|help|what|was|becomes|button)=["'][A-Za-z]|\|default(?:_if_none)?:["'][A-Za-z]{2}"""
)
_PLACE = re.compile(r"%\((\w+)\)s|\{(\w*)\}|(#)")
_TAG = re.compile(r"<[^>]+>")


class _Texts(HTMLParser):
    """The texts of markup from which every tag of the template was taken out."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []
        self.open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in READ_ALOUD:
            self._note(given.get(name) or "")
        if tag not in ("input", "link", "meta", "br", "wbr", "img", "col", "rect", "line"):
            is_code = tag in ("pre", "script", "style", "kbd", "code") or "mono" in (given.get("class") or "").split()
            self.open.append((tag, is_code))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(is_code for _, is_code in self.open):
            self._note(data)

    def _note(self, text: str) -> None:
        if _WORD.search(text) and text.strip() not in NAMES:
            self.found.append((self.getpos()[0], " ".join(text.split())))


def _untranslated(source: str) -> Iterator[tuple[int, str]]:
    """The texts of a template that stand in no tag of translation, and the lines they are in."""
    markup, hidden = "", ""
    for token in Lexer(source).tokenize():
        lines = "\n" * token.contents.count("\n")
        name = token.contents.split(" ")[0] if token.token_type is TokenType.BLOCK else ""
        if hidden:
            hidden = "" if name == hidden else hidden
            markup += lines
        elif name in ("blocktranslate", "comment"):
            hidden = f"end{name}"
        elif token.token_type is TokenType.TEXT:
            markup += token.contents
        elif token.token_type is not TokenType.COMMENT and _ARGUMENT.search(token.contents):
            yield token.lineno, token.contents
    parser = _Texts()
    parser.feed(markup)
    parser.close()
    yield from parser.found


def test_every_text_of_a_template_is_translated() -> None:
    found = []
    for path in templates():
        name = str(path.relative_to(PROJECT / "templates"))
        if not name.startswith(IN_ENGLISH):
            found += [f"{name}:{line}: {text}" for line, text in _untranslated(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "template",
    [
        "<p>Some text</p>",
        '<a title="Some text">{{ name }}</a>',
        '{% include "x.html" with label="Some text" %}',
        '{{ name|default:"nobody" }}',
        "<p>{% if x %}{% translate 'One' %}{% endif %} and more</p>",
    ],
)
def test_what_is_not_translated_is_found(template: str) -> None:
    assert list(_untranslated(template)) != []


def test_the_catalogue_is_what_the_sources_say() -> None:
    known, marked = {entry.text for entry in entries()}, marked_texts()
    assert len(marked) > 1000
    assert sorted(marked - known, key=str) == [], "run `make translations` and translate what it adds"
    assert sorted(known - marked, key=str) == [], "run `make translations`"


def test_every_text_has_its_german() -> None:
    lacking = [entry.text.english for entry in entries() if entry.is_fuzzy or not all(entry.german)]
    assert lacking == []


def _places(text: str) -> Counter[str]:
    return Counter("".join(found) for found in _PLACE.findall(text))


def _fits(entry: Entry) -> bool:
    """Whether the German has the places for values and the markup of the English; of one thing no number is needed."""
    *singular, last = entry.german
    english = entry.text.plural or entry.text.english
    return (
        _places(last).keys() == _places(english).keys()
        and sorted(_TAG.findall(last)) == sorted(_TAG.findall(english))
        and all(_places(text).keys() <= _places(english).keys() for text in singular)
    )


def test_the_german_has_the_same_places_and_markup() -> None:
    assert [entry.text.english for entry in entries() if not _fits(entry)] == []


def test_what_is_compiled_is_the_catalogue() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
    expected: dict[Any, str] = {}
    for entry in entries():
        name = entry.text.english if entry.text.context is None else f"{entry.text.context}\4{entry.text.english}"
        if entry.text.plural is None:
            expected[name] = entry.german[0]
        else:
            expected |= {(name, number): text for number, text in enumerate(entry.german)}
    assert {name: text for name, text in compiled.items() if name} == expected, "run `make translations`"


def test_what_scripts_say_is_brought_by_the_page() -> None:
    said = set()
    for script in (file for folder in FOLDERS for file in (PROJECT / folder / "static").rglob("*.js")):
        said |= set(re.findall(r'\bsay\(\s*"([^"]+)"', script.read_text("utf-8")))
    assert said == script_texts()


GERMAN = {"Accept-Language": "de-AT,de;q=0.9,en;q=0.8"}


@pytest.mark.django_db
def test_pages_are_in_the_language_of_who_asks(client: Client) -> None:
    person = make_person(may=("audit.read_log",))
    sign_in = client.get("/console/sign-in", headers=GERMAN)
    assert '<html lang="de">' in sign_in.content.decode()
    assert "Kennwort" in sign_in.content.decode()
    assert (sign_in["Content-Language"], "Accept-Language" in sign_in["Vary"]) == ("de", True)
    assert "Unter dieser Adresse gibt es nichts" in client.get("/console/none", headers=GERMAN).content.decode()
    # Programs are answered in English, and so is whoever comes next on the same thread.
    problem = client.get("/api/me", headers=GERMAN).json()
    assert problem["title"] == "A valid credential is required"
    assert '<html lang="en">' in client.get("/console/sign-in").content.decode()

    console = Console(person)
    home = console.call("GET", "/console/", **GERMAN).body.decode()
    assert "Letzte Änderungen" in home
    assert '"Copied."' in home  # of what its scripts say
    assert "Kein Objekt" not in home
    # A choice of one's own goes before what the browser prefers, until it is taken back.
    assert console.submit("/console/account/language", language="de").status == 302
    assert console.client.cookies[settings.LANGUAGE_COOKIE_NAME]["httponly"]
    assert "Die Seiten sind jetzt auf Deutsch." in console.get("/console/").body.decode()
    assert console.submit("/console/account/language", language="").status == 302
    assert '<html lang="en">' in console.get("/console/").body.decode()
