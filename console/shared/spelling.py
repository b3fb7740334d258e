"""Spells a password for somebody who says it on the telephone."""

from typing import Final

from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

_WORDS: Final = {
    "en": "Alfa Bravo Charlie Delta Echo Foxtrot Golf Hotel India Juliett Kilo Lima Mike November Oscar Papa Quebec "
    "Romeo Sierra Tango Uniform Victor Whiskey X-ray Yankee Zulu",
    "de": "Aachen Berlin Chemnitz Düsseldorf Essen Frankfurt Goslar Hamburg Ingelheim Jena Köln Leipzig München "
    "Nürnberg Offenbach Potsdam Quickborn Rostock Salzwedel Tübingen Unna Völklingen Wuppertal Xanten Ypsilon Zwickau",
}
"""The alphabet of the International Civil Aviation Organization, and that of DIN 5009 (2022)."""

_SYMBOLS: Final = {
    "!": gettext_lazy("exclamation mark"),
    "#": gettext_lazy("hash"),
    "%": gettext_lazy("percent sign"),
    "+": gettext_lazy("plus sign"),
    "-": gettext_lazy("hyphen"),
    ":": gettext_lazy("colon"),
    "=": gettext_lazy("equals sign"),
    "?": gettext_lazy("question mark"),
    "@": gettext_lazy("at sign"),
    "_": gettext_lazy("underscore"),
    "*": gettext_lazy("asterisk"),
    "&": gettext_lazy("ampersand"),
}


def spell(password: str) -> list[tuple[str, str]]:
    """Each character with how it is said, in the reader's language: `T` is "capital Tango"."""
    words = {word[0]: word for word in _WORDS[(get_language() or "en")[:2]].split()}
    return [(each, _said(each, words)) for each in password]


def _said(character: str, words: dict[str, str]) -> str:
    if word := words.get(character.upper()):
        return _("capital {word}").format(word=word) if character.isupper() else word
    return str(_SYMBOLS.get(character, character))
