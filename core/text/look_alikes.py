"""Names that look alike without being the same: `Admins` with a Cyrillic A, `adm1n` and `admin`, `modern` and `modem`.

`confusables.tsv` beside this module has the characters that look like one another (`scripts/make-confusables`).
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, islice, product
from pathlib import Path
from types import MappingProxyType
from typing import Final

from core.text.unseen import is_unseen


def _read() -> dict[str, str]:
    text = Path(__file__).with_name("confusables.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.split("\n") if line and not line.startswith("# "))
    return {character: form for form, characters in rows for character in characters}


_FORMS: Final = _read()
_TABLE: Final = str.maketrans(_FORMS)
_AMBIGUOUS: Final = MappingProxyType({"l": "i1l", "i": "l1", "1": "li", "o": "0", "0": "o", "m": ("rn",), "rn": ("m",)})
"""What looks like what among the letters and digits of ASCII, where case does not matter."""
_SCRIPTS: Final = tuple(
    str.maketrans(
        {
            form: character
            for character, form in reversed(_FORMS.items())
            if len(form) == 1 and unicodedata.name(character, "").startswith(script)
        }
    )
    for script in ("CYRILLIC SMALL", "GREEK SMALL")
)


@lru_cache(maxsize=4096)
def skeletons(name: str) -> frozenset[tuple[str, str]]:
    """The forms of a name by which those that look alike meet: as it is written, in small and in capital letters.

    The directory takes all three for one name, and others show it in any of them: `i` and `1` meet in capitals alone.
    """
    seen = _seen(name)
    forms = {"written": seen, "small": seen.casefold(), "capital": seen.upper()}
    return frozenset((written, _form(text)) for written, text in forms.items())


def _seen(name: str) -> str:
    if name.isascii() and name.isprintable():  # as most are, of a thousand siblings
        return name
    return "".join(each for each in unicodedata.normalize("NFKC", name) if not is_unseen(each))


def _form(text: str) -> str:
    mapped = unicodedata.normalize("NFKD", text).translate(_TABLE)
    return " ".join(unicodedata.normalize("NFC", mapped).split())


def are_look_alikes(one: str, other: str) -> bool:
    """Whether two names look alike. Those that the directory takes for the same do too."""
    return not skeletons(one).isdisjoint(skeletons(other))


@lru_cache(maxsize=1024)
def likely_twins(name: str, limit: int = 64) -> tuple[str, ...]:
    """Names to look for that look like this one: in one script, and with few letters exchanged; at most `limit`."""
    return tuple(dict.fromkeys(islice(_twins(name), limit)))


def _twins(name: str) -> Iterator[str]:
    plain = _in_ascii(_seen(name))
    yield plain
    for script in _SCRIPTS:
        yield plain.translate(script)
    tokens = list(_tokens(plain))
    exchangeable = [place for place, token in enumerate(tokens) if token in _AMBIGUOUS]
    for count in range(1, len(exchangeable) + 1):
        for places in combinations(exchangeable, count):
            for others in product(*(_AMBIGUOUS[tokens[place]] for place in places)):
                exchanged = dict(zip(places, others, strict=True))
                yield "".join(exchanged.get(place, token) for place, token in enumerate(tokens))


def _in_ascii(text: str) -> str:
    """The text in small letters, with what looks like a character of ASCII in place of each of the others."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    mapped = "".join(each if each.isascii() else _FORMS.get(each, each).casefold() for each in decomposed)
    return unicodedata.normalize("NFC", mapped)


def _tokens(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        token = "rn" if text.startswith("rn", place) else text[place]
        yield token
        place += len(token)
