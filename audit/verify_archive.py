"""Verifies an archive of the operations log by itself: with Python's standard library, the file and the log keys.

    GATEWAY_LOG_KEYS=… python3 verify_archive.py 2025-12.gz

The file is compressed text. Its first line says what it holds, each further one is a record, and the last has the
number of records and a MAC, under the log key, of all lines before. `audit.chain.archive` writes it.
"""

import gzip
import hashlib
import hmac
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FORMAT: Final = "directory-management-gateway operations log 1"


class NotGenuine(Exception):
    """Why a file is no archive that the gateway made."""


def archive_mac(content: Mapping[str, Any], key: str) -> str:
    """The MAC of an archive's number of records and digest."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), b"operations log, archive\0" + text.encode(), "sha256").hexdigest()


def read_archive(file: Path, keys: Sequence[str]) -> tuple[str, int]:
    """The month of an archive and the number of its records. Raises NotGenuine unless the gateway made all of it."""
    digest, count, month = hashlib.sha256(), 0, ""
    try:
        with gzip.open(file, "rb") as packed:
            before: bytes | None = None
            for number, line in enumerate(packed):
                if number == 1:
                    month = _month_of(before or b"")
                if before is not None:
                    digest.update(before)
                    count += 1
                before = line
        last = json.loads(before or b"")
        content = {"records": last["records"], "digest": digest.hexdigest()}
        made = any(hmac.compare_digest(archive_mac(content, key).encode(), str(last["mac"]).encode()) for key in keys)
        is_ours = month and last["records"] == count - 1 and made
    except (EOFError, gzip.BadGzipFile, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise NotGenuine("It is cut off, or no archive of the operations log.") from None
    if not is_ours:
        raise NotGenuine("It was changed, or was not made under any of the log keys at hand.")
    return month, count - 1


def _month_of(header: bytes) -> str:
    found = json.loads(header)
    if found["archive"] != FORMAT:
        raise ValueError
    return str(found["month"])


def main(file: str) -> None:
    """Verify a file, or exit with 1 and say why it is no archive."""
    keys = [key.strip() for key in os.environ.get("GATEWAY_LOG_KEYS", "").split(",") if key.strip()]
    try:
        month, records = read_archive(Path(file), keys)
    except (NotGenuine, OSError) as error:
        sys.exit(f"{file}: {error}")
    sys.stdout.write(f"The archive of {month} is as it was written: {records} records.\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
