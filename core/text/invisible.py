"""Invisible characters and those that change how others are read: found, and marked where people read them.

Names and reasons that somebody else chose may contain them to pass for something else.
"""

import re
import unicodedata
from collections.abc import Callable

_CATEGORIES = frozenset("Cc Cf Co Cn Cs Zl Zp".split())
"""Control and format characters (bidirectional ones, joiners, tags, the soft hyphen), line ends, and what has no
glyph."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols without a glyph: joiners, fillers, vowels, selectors and the blank of Braille."""
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

_LESS_USUAL = re.compile(r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0400-\u052f]")
"""A quick first test: printable ASCII and all Latin and Cyrillic letters are visible."""

_NON_JOINER, _JOINER = "\u200c", "\u200d"
_VIRAMA = 9  # the canonical combining class
_ARABIC = range(0x0620, 0x0700)
_JOIN_NOTHING = frozenset("ءٴ\u06dd")
_JOIN_ONE_SIDE = frozenset("آأؤإاةدذرزوٱٲٳٵٶٷڈډڊڋڌڍڎڏڐڑڒړڔڕږڗژڙۀۃۄۅۆۇۈۉۊۋۍۏےۓەۮۯ")

_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
RIGHT_TO_LEFT = re.compile(rf"[{_RIGHT_TO_LEFT}](?:[ '’._\u200c\u200d\-]{{0,2}}[{_RIGHT_TO_LEFT}])*")
"""Words that are read from right to left, with what joins them into one name."""


def is_invisible(character: str) -> bool:
    """Whether a character is invisible or looks like another; every space but the ordinary one does."""
    category = unicodedata.category(character)
    if category in _CATEGORIES or character in _BLANK or (category == "Zs" and character != " "):
        return True
    return any(ord(character) in selectors for selectors in _SELECTORS)


def has_invisible(text: str) -> bool:
    """Whether a text contains invisible characters."""
    return bool(invisible_code_points(text))


def invisible_code_points(text: str) -> tuple[str, ...]:
    """The invisible characters in a text, each once, as `U+202E`."""
    found: dict[str, None] = {}
    replace_invisible(text, lambda character: str(found.setdefault(_code_point(character))))
    return tuple(found)


def mark_invisible(text: str, *, but: str = "") -> str:
    """The text with a mark such as `⟨U+202E⟩` in place of each invisible character, except those in `but`."""
    return replace_invisible(text, lambda character: f"⟨{_code_point(character)}⟩", but=but)


def replace_invisible(text: str, replacement: Callable[[str], str], *, but: str = "") -> str:
    """The text with a replacement for each invisible character, except those in `but`."""

    def replaced(found: re.Match[str]) -> str:
        character = found[0]
        is_shown = character in but or not is_invisible(character) or _joins_letters(text, found.start())
        return character if is_shown else replacement(character)

    return _LESS_USUAL.sub(replaced, text)


def escaped_in_json(character: str) -> str:
    """A character as `\\uXXXX`, which JSON and JavaScript strings read as the same value, but visibly."""
    encoded = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))


def text_for_people(text: str) -> str:
    """The last step of making a message: mark invisible characters, and isolate right-to-left words.

    These would reorder the text around them.
    """
    return RIGHT_TO_LEFT.sub("\u2068\\g<0>\u2069", mark_invisible(text, but="\n"))


def _joins_letters(text: str, place: int) -> bool:
    """Whether a joiner or non-joiner stands where correct spelling needs it (RFC 5892, appendices A.1 and A.2).

    That is after a virama and, for a non-joiner, between Arabic letters that would join without it.
    """
    character = text[place]
    if character not in (_NON_JOINER, _JOINER) or place == 0:
        return False
    if unicodedata.combining(text[place - 1]) == _VIRAMA:
        return True
    if character == _JOINER:
        return False
    before = _next_letter(text, place, -1)
    return _is_joining(before) and before not in _JOIN_ONE_SIDE and _is_joining(_next_letter(text, place, 1))


def _next_letter(text: str, place: int, step: int) -> str:
    """The nearest character on one side that is not a combining mark; empty at the end of the text."""
    place += step
    while 0 <= place < len(text) and unicodedata.category(text[place]) == "Mn":
        place += step
    return text[place] if 0 <= place < len(text) else ""


def _is_joining(letter: str) -> bool:
    is_arabic = letter != "" and ord(letter) in _ARABIC and unicodedata.category(letter) == "Lo"
    return is_arabic and letter not in _JOIN_NOTHING


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"
