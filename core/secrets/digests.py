"""Digests under the encryption keys: who reads the database cannot find by trying what they were made of.

They are compared and never opened, so an exchange of keys does not bring them under the new one: each remembers, or can
be asked, which key it is under, and `gateway keys needed` counts them.
"""

import hmac

from django.conf import settings


def digests(purpose: bytes, content: bytes) -> list[str]:
    """The digest of the content under each configured encryption key, 64 hex digits; the first is the one to keep."""
    return [_digest(key, purpose, content) for key in settings.ENCRYPTION_KEYS]


def is_digest(digest: str, purpose: bytes, content: bytes) -> bool:
    """Whether this is the digest of the content under any configured key."""
    return number_of_key(digest, purpose, content) is not None


def number_of_key(digest: str, purpose: bytes, content: bytes) -> int | None:
    """The place, from 1, of the configured key under which this is the content's digest; None where none is."""
    given = digest.encode("utf-8", "surrogatepass")
    for number, own in enumerate(digests(purpose, content), 1):
        if hmac.compare_digest(own.encode(), given):
            return number
    return None


def name_of_encryption_key(key: str) -> str:
    """A code that names a key and tells nothing of it, 16 hex digits."""
    return hmac.new(key.encode(), b"name of an encryption key", "sha256").hexdigest()[:16]


def _digest(encryption_key: str, purpose: bytes, content: bytes) -> str:
    return hmac.new(hmac.digest(encryption_key.encode(), purpose, "sha256"), content, "sha256").hexdigest()
