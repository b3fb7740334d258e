"""Names that identify people, keys and objects to a reader: which are refused, and which look alike but differ.

A reader of the log and an approver see only names: they take `Admins` with a Cyrillic A for `Admins`, `adm1n` for
`admin`, `modern` for `modem`. `confusables.tsv` beside this module lists the characters that look alike
(`scripts/make-confusables`).
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, islice, product
from pathlib import Path

from core.text.invisible import has_invisible, is_invisible
from core.text.messages import message

# The scripts that Unicode Standard Annex #31 (table 5) recommends for identifiers, as the first word of letters' names.
_SCRIPTS = frozenset(
    """
    LATIN GREEK CYRILLIC ARMENIAN GEORGIAN HEBREW ARABIC THAANA DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL
    TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR KHMER ETHIOPIC HANGUL HIRAGANA KATAKANA BOPOMOFO CJK
    """.split()
)
# Scripts that occur in one word (Unicode Technical Standard #39, section 5.2, "highly restrictive").
_COMBINABLE_SCRIPTS = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)
# Small letters that look like Latin ones, from the confusables of Unicode Technical Standard #39. Capitals are not
# needed: user names may contain none outside A to Z.
_LOOKS_LIKE = str.maketrans(
    "асԁеһіјӏорԛѕԝхуүѵгкпαβγηικμνορστυχωϲϳօսհոցզյıɩɪɑɡɢȷʏᴀʙᴄᴅᴇʜᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡᴢ",
    "acdehijlopqswxyyvrknabynikuvopotuxwcjouhngqjiiiaggjyabcdehjklmnoprstuvwz",
)


def require_label(text: str) -> str:
    """Return the text; raises ValueError with its `label_complaint`, if any."""
    if complaint := label_complaint(text):
        raise ValueError(complaint)
    return text


def label_complaint(text: str) -> str | None:
    """Why a text cannot be the name of a role or key, or a person's display name; None if it can."""
    if has_invisible(text):
        return message("contains characters that are not seen, or that change how others are read")
    return None


def username_complaint(name: str) -> str | None:
    """Why a name in normal form NFKC cannot be that of a new local account; None if it can."""
    letters = [character for character in name if unicodedata.category(character).startswith("L")]
    others = [character for character in name if character not in letters]
    scripts = frozenset(_script(letter) for letter in letters)
    if any(not character.isascii() for character in others):
        return message("may contain digits 0 to 9, and no others")
    if not scripts <= _SCRIPTS:
        return message("contains letters of a script that names are not written in")
    if len(scripts) > 1 and not any(scripts <= combinable for combinable in _COMBINABLE_SCRIPTS):
        return message("mixes letters of several scripts, which look like one another")
    if any(letter != letter.lower() for letter in letters if not letter.isascii()):
        return message("may contain capital letters from A to Z, and no others")
    return None


def name_key(name: str) -> str:
    """A key that is equal for names that differ only in case, compatibility characters or look-alike letters."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return unicodedata.normalize("NFKC", folded.translate(_LOOKS_LIKE))


def _script(letter: str) -> str:
    """The script of a letter; `KATAKANA-HIRAGANA PROLONGED SOUND MARK`, common to both, counts as Katakana."""
    return unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]


def _read() -> dict[str, str]:
    text = Path(__file__).with_name("confusables.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.split("\n") if line and not line.startswith("# "))
    return {character: form for form, characters in rows for character in characters}


_FORMS = _read()
_TABLE = str.maketrans(_FORMS)
_AMBIGUOUS = {"l": "i1l", "i": "l1", "1": "li", "o": "0", "0": "o", "m": ("rn",), "rn": ("m",)}
"""ASCII letters and digits that look like others when case does not matter."""
_LIKE_LATIN = tuple(
    str.maketrans(
        {
            form: character
            for character, form in reversed(_FORMS.items())
            if len(form) == 1 and unicodedata.name(character, "").startswith(script)
        }
    )
    for script in ("CYRILLIC SMALL", "GREEK SMALL")
)
"""Tables that replace ASCII letters by look-alikes of one script."""


@lru_cache(maxsize=4096)
def skeletons(name: str) -> frozenset[tuple[str, str]]:
    """The skeletons of a name (UTS #39, section 4) as written, in small and in capital letters; look-alikes share one.

    The directory takes all three for one name and other programs show any of them: `i` looks like `1` in capitals only.
    """
    visible = _visible(name)
    forms = {"written": visible, "small": visible.casefold(), "capital": visible.upper()}
    return frozenset((form, _skeleton(text)) for form, text in forms.items())


def _visible(name: str) -> str:
    if name.isascii() and name.isprintable():  # most names, and a check may compare a thousand siblings
        return name
    return "".join(each for each in unicodedata.normalize("NFKC", name) if not is_invisible(each))


def _skeleton(text: str) -> str:
    mapped = unicodedata.normalize("NFKD", text).translate(_TABLE)
    return " ".join(unicodedata.normalize("NFC", mapped).split())


def are_look_alikes(one: str, other: str) -> bool:
    """Whether two names look alike, or are the same to the directory."""
    return not skeletons(one).isdisjoint(skeletons(other))


@lru_cache(maxsize=1024)
def candidate_look_alikes(name: str, limit: int = 64) -> tuple[str, ...]:
    """Names to search for because they look like this one, most likely first: one script, few letters exchanged."""
    return tuple(dict.fromkeys(islice(_look_alikes(name), limit)))


def _look_alikes(name: str) -> Iterator[str]:
    plain = _in_ascii(_visible(name))
    # The likeliest imitations first, since the caller takes only some: one script, then ever more exchanged letters.
    yield plain
    for script in _LIKE_LATIN:
        yield plain.translate(script)
    tokens = list(_tokens(plain))
    exchangeable = [place for place, token in enumerate(tokens) if token in _AMBIGUOUS]
    for count in range(1, len(exchangeable) + 1):
        for places in combinations(exchangeable, count):
            for others in product(*(_AMBIGUOUS[tokens[place]] for place in places)):
                exchanged = dict(zip(places, others, strict=True))
                yield "".join(exchanged.get(place, token) for place, token in enumerate(tokens))


def _in_ascii(text: str) -> str:
    """The text in small letters, with each character replaced by the ASCII character it looks like, if any."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    mapped = "".join(each if each.isascii() else _FORMS.get(each, each).casefold() for each in decomposed)
    return unicodedata.normalize("NFC", mapped)


def _tokens(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        token = "rn" if text.startswith("rn", place) else text[place]
        yield token
        place += len(token)
