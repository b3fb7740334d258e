"""Characters that nobody sees, or that change how others are read: found, and marked where people read.

What others have named (objects, keys, people, reasons) may hold them, to be taken for something else.
"""

import unicodedata

_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
"""Control and format characters (bidirectional ones, joiners, tags, the soft hyphen), line ends, and what has no
glyph."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters, marks and symbols without a glyph: joiners, fillers, vowels, selectors and the blank of Braille."""
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


def is_unseen(character: str) -> bool:
    """Whether a character is not seen for what it is: every space but the ordinary one is among them."""
    category = unicodedata.category(character)
    if category in _CATEGORIES or character in _BLANK or (category == "Zs" and character != " "):
        return True
    return any(ord(character) in selectors for selectors in _SELECTORS)


def unseen_in(text: str) -> tuple[str, ...]:
    """The code points of what is unseen in a text, each once, as `U+202E`."""
    return tuple(dict.fromkeys(_code_point(character) for character in text if is_unseen(character)))


def with_unseen_marked(text: str) -> str:
    """The text with a mark such as `⟨U+202E⟩` in place of each unseen character."""
    return "".join(f"⟨{_code_point(character)}⟩" if is_unseen(character) else character for character in text)


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"
