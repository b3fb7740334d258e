"""Making keys before there are any: nothing here needs the settings, which do not load without keys."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from core.secrets.keyring import new_encryption_key, new_log_key, new_secret_key

_MAKERS: Final = {"secret": new_secret_key, "encryption": new_encryption_key, "log": new_log_key}
_FILES: Final = {"secret": "secret-key", "encryption": "encryption-keys", "log": "log-keys"}

HELP: Final = "Print a new key for GATEWAY_SECRET_KEY, GATEWAY_ENCRYPTION_KEYS or GATEWAY_LOG_KEYS, or write all three."


class CannotWrite(Exception):
    """A file that is there already, or a folder that cannot be written to."""


def add_arguments(parser: ArgumentParser) -> None:
    """What `gateway keys new` takes."""
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("kind", nargs="?", choices=_MAKERS, help="which key to print")
    wanted.add_argument(
        "--directory", type=Path, help=f"write {', '.join(_FILES.values())} there, for the `*_FILE` variables"
    )


def make(*, kind: str | None, directory: Path | None) -> list[str]:
    """The lines to show: the key, or the files of mode 600 that were written; raises CannotWrite.

    None is written over: whatever the former keys encrypted and sealed would be lost.
    """
    if directory is None:
        return [_MAKERS[kind or ""]()]
    files = {directory / name: _MAKERS[each] for each, name in _FILES.items()}
    for file in files:
        if file.exists():
            raise CannotWrite(f"{file} is there already; nothing was written")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, new in files.items():
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                opened.write(f"{new()}\n")
    except OSError as error:
        raise CannotWrite(f"{error.filename}: {error.strerror}") from None
    return [str(file) for file in files]
