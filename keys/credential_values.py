"""The format of API keys, platform tokens and calendar secrets: generating, parsing and comparing. No database access.

`dgk_`, `dgp_` or `dgc_` + 12 base62 digits of look-up id + `_` + 32 of secret + 6 of checksum.
The checksum exposes typing errors and look-alikes before the key is looked for, and lets secret scanners recognise
leaked keys.
Only the look-up id and the SHA-256 of the whole value are stored. The secret has 190 random bits and cannot be guessed,
so a slow password hash would protect nothing and burden every request.
"""

import hashlib
import hmac
import re
import zlib
from dataclasses import dataclass
from enum import StrEnum

from django.utils.crypto import get_random_string

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
LOOKUP_LENGTH, SECRET_LENGTH, CHECKSUM_LENGTH = 12, 32, 6

_PAIRS = [first + second for first in ALPHABET for second in ALPHABET]
_COUNT = len(_PAIRS)
_FORM = re.compile(
    rf"(dg[a-z])_([0-9A-Za-z]{{{LOOKUP_LENGTH}}})_[0-9A-Za-z]{{{SECRET_LENGTH}}}([0-9A-Za-z]{{{CHECKSUM_LENGTH}}})"
)


class Prefix(StrEnum):
    """What a credential is for."""

    API_KEY = "dgk"
    PLATFORM_TOKEN = "dgp"  # noqa: S105 - a prefix
    CALENDAR = "dgc"


@dataclass(frozen=True, slots=True)
class Secret:
    """The two stored parts of a credential."""

    lookup_id: str
    digest: str

    def matches(self, digest: str) -> bool:
        """Whether a stored digest is the same, compared in constant time."""
        return hmac.compare_digest(self.digest, digest)


def make(prefix: Prefix) -> tuple[str, Secret]:
    """Generate a credential: the value to show once, and what to store of it."""
    body = f"{prefix}_{get_random_string(LOOKUP_LENGTH, ALPHABET)}_{get_random_string(SECRET_LENGTH, ALPHABET)}"
    value = body + checksum(body)
    return value, Secret(lookup_id=value[4 : 4 + LOOKUP_LENGTH], digest=_digest(value))


def parse(value: str, prefix: Prefix) -> Secret | None:
    """The stored parts of a credential; None when its form, kind or checksum is wrong."""
    form = _FORM.fullmatch(value)
    if form is None or form[1] != prefix or checksum(value[:-CHECKSUM_LENGTH]) != form[3]:
        return None
    return Secret(lookup_id=form[2], digest=_digest(value))


def checksum(text: str) -> str:
    """CRC-32 in base62, padded with zeros on the left."""
    number = zlib.crc32(text.encode("ascii"))
    return f"{_PAIRS[number // _COUNT // _COUNT]}{_PAIRS[number // _COUNT % _COUNT]}{_PAIRS[number % _COUNT]}"


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("ascii")).hexdigest()
