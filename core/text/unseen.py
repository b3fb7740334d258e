"""Characters that nobody sees, or that change how others are read: found, and marked where people read.

What others have named (objects, keys, people, reasons) may hold them, to be taken for something else.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Final

_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
"""Control and format characters (bidirectional ones, joiners, tags, the soft hyphen), line ends, and what has no
glyph."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols without a glyph: joiners, fillers, vowels, selectors and the blank of Braille."""
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))

_LESS_USUAL = re.compile(r"[^\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0400-\u052f]")
"""What is worth a look: all of ASCII that is printed, of Latin and of Cyrillic letters is seen."""

_NON_JOINER, _JOINER = "\u200c", "\u200d"
_VIRAMA = 9  # the canonical combining class
_ARABIC = range(0x0620, 0x0700)
_JOIN_NOTHING = frozenset("ءٴ\u06dd")
_JOIN_ONE_SIDE = frozenset("آأؤإاةدذرزوٱٲٳٵٶٷڈډڊڋڌڍڎڏڐڑڒړڔڕږڗژڙۀۃۄۅۆۇۈۉۊۋۍۏےۓەۮۯ")

_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
RIGHT_TO_LEFT: Final = re.compile(rf"[{_RIGHT_TO_LEFT}](?:[ '’._\u200c\u200d\-]{{0,2}}[{_RIGHT_TO_LEFT}])*")
"""Words that are read from right to left, with what joins them to one name."""


def is_unseen(character: str) -> bool:
    """Whether a character is not seen for what it is: every space but the ordinary one is among them."""
    category = unicodedata.category(character)
    if category in _CATEGORIES or character in _BLANK or (category == "Zs" and character != " "):
        return True
    return any(ord(character) in selectors for selectors in _SELECTORS)


def has_unseen(text: str) -> bool:
    """Whether a text has characters that nobody sees."""
    return bool(unseen_in(text))


def unseen_in(text: str) -> tuple[str, ...]:
    """The code points of what is unseen in a text, each once, as `U+202E`."""
    found: dict[str, None] = {}
    with_unseen_replaced(text, lambda character: str(found.setdefault(_code_point(character))))
    return tuple(found)


def with_unseen_marked(text: str, *, but: str = "") -> str:
    """The text with a mark such as `⟨U+202E⟩` in place of each unseen character, `but` some."""
    return with_unseen_replaced(text, lambda character: f"⟨{_code_point(character)}⟩", but=but)


def with_unseen_replaced(text: str, replacement: Callable[[str], str], *, but: str = "") -> str:
    """The text with something else in place of each unseen character, `but` some."""

    def replaced(found: re.Match[str]) -> str:
        character = found[0]
        is_shown = character in but or not is_unseen(character) or _joins_letters(text, found.start())
        return character if is_shown else replacement(character)

    return _LESS_USUAL.sub(replaced, text)


def escaped_in_json(character: str) -> str:
    """A character as a string of JSON or of a script may spell it: the value is the same, and can be seen."""
    encoded = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{encoded[at : at + 2].hex()}" for at in range(0, len(encoded), 2))


def with_directions_isolated(text: str) -> str:
    """The text, of which what is read from right to left moves nothing beside it: for messages, not for pages."""
    return RIGHT_TO_LEFT.sub("\u2068\\g<0>\u2069", text)


def for_people(text: str) -> str:
    """Text for a message, as its last step: what nobody sees is marked, and directions are isolated."""
    return with_directions_isolated(with_unseen_marked(text, but="\n"))


def _joins_letters(text: str, place: int) -> bool:
    """Whether a joiner or non-joiner stands where the spelling of a script has it (RFC 5892, appendices A.1 and A.2).

    That is behind a virama, and, for a non-joiner, between Arabic letters that would be joined without it.
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
    """The nearest character on one side that is no mark upon another one; empty at the end."""
    place += step
    while 0 <= place < len(text) and unicodedata.category(text[place]) == "Mn":
        place += step
    return text[place] if 0 <= place < len(text) else ""


def _is_joining(letter: str) -> bool:
    is_arabic = letter != "" and ord(letter) in _ARABIC and unicodedata.category(letter) == "Lo"
    return is_arabic and letter not in _JOIN_NOTHING


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"
