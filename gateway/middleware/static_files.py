"""Static files under addresses that change with their content, so that browsers keep them for good.

There is no build step: a file is served from where its package has it, under its own name, and what its content is
stands in the query (`?v=`). Every request counts against the rate limits of an address, those for files, too.
"""

import hashlib
from functools import cache
from typing import Any, Final

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from django.utils.http import urlencode

KEPT_FOR_GOOD: Final = "public, max-age=31536000, immutable"


@cache
def fingerprint_of(name: str) -> str | None:
    """What tells the content of a static file from every other; None when there is no such file.

    The files belong to the release: they do not change while a process runs.
    """
    path = finders.find(name)
    if not isinstance(path, str):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


class FingerprintedStaticFiles(StaticFilesStorage):
    """Gives static files their addresses."""

    def url(self, name: str | None) -> str:
        address = super().url(name)
        fingerprint = fingerprint_of(name) if name else None
        return address if fingerprint is None else f"{address}?{urlencode({'v': fingerprint})}"


def keep_for_good(response: Any, *, name: str, version: str | None) -> None:
    """Let browsers keep a file for good if the address names the content that it has here.

    While a release is rolled out the page may be of another one than the process that is asked for its files.
    """
    if version is not None and version == fingerprint_of(name):
        response["Cache-Control"] = KEPT_FOR_GOOD
