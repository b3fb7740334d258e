"""How the directory compares text: without regard to case, one letter for one letter, and to surplus spaces.

Python's own ways to fold case take more for the same: to them ``ß`` is ``ss`` and a no-break space is a space, while a
directory holds ``OU=Maßen`` beside ``OU=Massen``. What is held side by side must never be taken for one.
"""

import re
from typing import Final

# The small letters that a directory takes for their capitals, as ranges of code points: those of Unicode 2. Samba's
# table has exactly these, measured letter by letter. Windows' has some that came later, too; but a directory that does
# not holds them side by side (`Ș` and `ș`), and of the two mistakes taking different names for one is the worse.
_SMALL_LETTERS: Final = """
    61-17e 183-192 199-199 1a1-1bd 1c6-1f5 1fb-217 253-25b 260-260 263-263 268-269 26f-26f 272-275 283-283 288-288
    28a-28b 292-292 3ac-3ce 3e3-3ef 430-44f 451-45c 45e-481 491-4c4 4c8-4c8 4cc-4cc 4d1-4eb 4ef-4f5 4f9-4f9 561-586
    1e01-1ef9 1f00-1fe5 2170-217f 24d0-24e9 ff41-ff5a
"""
_SPACES = re.compile(" +")


def _read_small_letters() -> dict[str, str]:
    """The small letters of each capital."""
    found = {"Σ": "ς"}
    for span in _SMALL_LETTERS.split():
        first, last = (int(end, 16) for end in span.split("-"))
        for letter in map(chr, range(first, last + 1)):
            capital = letter.upper()
            # There and back: `ı` has the capital I, but that one's small letter is another.
            if len(capital) == 1 and capital != letter and capital.lower() == letter:
                found[capital] = found.get(capital, "") + letter
    return found


_SMALL: Final = _read_small_letters()
_CAPITALS: Final = {ord(letter): capital for capital, letters in _SMALL.items() for letter in letters}


def fold(text: str) -> str:
    """The text with a capital for each small letter, as long as before: equal for texts that differ in case only."""
    return text.upper() if text.isascii() else text.translate(_CAPITALS)


def comparable(text: str) -> str:
    """The same for a value as a whole, of which spaces at the ends and repeated ones do not count either."""
    return _SPACES.sub(" ", fold(text)).strip(" ")


def pattern_of(text: str) -> str:
    """A regular expression, for Python and for PostgreSQL, of the texts that differ from this one in case only."""
    return "".join(f"[{letter}{_SMALL[letter]}]" if letter in _SMALL else re.escape(letter) for letter in fold(text))
