"""Names that people are told apart by: which are refused because they would be taken for another one.

A reader of the log and an approver see names, and nothing else of who asks.
"""

import unicodedata

from core.text.messages import message
from core.text.unseen import has_unseen

# Recommended for identifiers by Unicode Standard Annex #31 (table 5), by the first word of their letters' names.
_SCRIPTS = frozenset(
    {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN", "HEBREW", "ARABIC", "THAANA", "DEVANAGARI", "BENGALI"}
    | {"GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM", "SINHALA", "THAI", "LAO", "TIBETAN"}
    | {"MYANMAR", "KHMER", "ETHIOPIC", "HANGUL", "HIRAGANA", "KATAKANA", "BOPOMOFO", "CJK"}
)
# What is written together (Unicode Technical Standard #39, section 5.2, "highly restrictive").
_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)
# Small letters that look like Latin ones, after the confusables of Unicode Technical Standard #39. Capital ones need no
# line: outside A to Z they are refused.
_LOOKS_LIKE = str.maketrans(
    "асԁеһіјӏорԛѕԝхуүѵгкпαβγηικμνορστυχωϲϳօսհոցզյıɩɪɑɡɢȷʏᴀʙᴄᴅᴇʜᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡᴢ",
    "acdehijlopqswxyyvrknabynikuvopotuxwcjouhngqjiiiaggjyabcdehjklmnoprstuvwz",
)


def require_label(text: str) -> str:
    """The text; raises ValueError for one that `refuse_label` refuses."""
    if complaint := refuse_label(text):
        raise ValueError(complaint)
    return text


def refuse_label(text: str) -> str | None:
    """What keeps a text from being the name of a role or a key, or a person's display name; None when nothing does."""
    if has_unseen(text):
        return message("contains characters that are not seen, or that change how others are read")
    return None


def refuse_username(name: str) -> str | None:
    """What keeps a name, in normal form NFKC, from being that of a new local account; None when nothing does."""
    letters = [character for character in name if unicodedata.category(character).startswith("L")]
    others = [character for character in name if character not in letters]
    scripts = frozenset(_script(letter) for letter in letters)
    if any(not character.isascii() for character in others):
        return message("may contain digits 0 to 9, and no others")
    if not scripts <= _SCRIPTS:
        return message("contains letters of a script that names are not written in")
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        return message("mixes letters of several scripts, which look like one another")
    if any(letter != letter.lower() for letter in letters if not letter.isascii()):
        return message("may contain capital letters from A to Z, and no others")
    return None


def name_key(name: str) -> str:
    """Equal for names that differ only in case, in compatible characters or in letters that look alike."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return unicodedata.normalize("NFKC", folded.translate(_LOOKS_LIKE))


def _script(letter: str) -> str:
    """The script of a letter: `KATAKANA-HIRAGANA PROLONGED SOUND MARK` is written in both, and counts as the former."""
    return unicodedata.name(letter, "").partition(" ")[0].partition("-")[0]
