"""The key of a name as migration 0005 gave it to everybody who was there; `core.text.names` says what it is for."""

import unicodedata

_LOOKS_LIKE = str.maketrans(
    "асԁеһіјӏорԛѕԝхуүѵгкпαβγηικμνορστυχωϲϳօսհոցզյıɩɪɑɡɢȷʏᴀʙᴄᴅᴇʜᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡᴢ",
    "acdehijlopqswxyyvrknabynikuvopotuxwcjouhngqjiiiaggjyabcdehjklmnoprstuvwz",
)


def name_key(name):
    """Equal for names that differ only in case, in compatible characters or in letters that look alike."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return unicodedata.normalize("NFKC", folded.translate(_LOOKS_LIKE))
