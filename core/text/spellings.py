"""How a name is written in other ways: in ASCII for account names, and as somebody types it who looks for it."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

_LATIN: Final = str.maketrans(
    {"ß": "ss", "æ": "ae", "ø": "o", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"}
)
"""Letters that have no accent which could be taken off."""
_TWO_FOR_ONE: Final = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ø": "oe", "å": "aa", "æ": "ae"}
_ACCENTED: Final = {"a": "ä", "o": "ö", "u": "ü", "e": "é"}
"""The letter with its most frequent accent; a name that has another one is found as it is written."""
_MOST: Final = 6


def in_ascii(text: str, letters: Mapping[str, str]) -> str:
    """A text in lower case with `letters` written as given (`ü`: `ue`), others without their accents."""
    lowered = unicodedata.normalize("NFC", text.lower())
    written = "".join(letters.get(letter, letter) for letter in lowered).translate(_LATIN)
    return "".join(each for each in unicodedata.normalize("NFKD", written) if not unicodedata.combining(each))


def other_spellings(text: str) -> list[str]:
    """A few ways in which somebody else may have written a name: `juergen`, `jurgen` and `jürgen`.

    Windows compares without accents, but takes `ue` for two letters; Samba compares them as they are.
    """
    typed = unicodedata.normalize("NFC", text.lower())
    contracted = typed
    for one, two in _TWO_FOR_ONE.items():
        contracted = contracted.replace(two, one)
    plain = in_ascii(text, {})
    accented = (f"{plain[: at.start()]}{_ACCENTED[at[0]]}{plain[at.end() :]}" for at in re.finditer("[aoue]", plain))
    found = [contracted, in_ascii(text, _TWO_FOR_ONE), plain, *accented]
    return [each for each in dict.fromkeys(found) if each != typed][:_MOST]
