"""`gateway keys new`: generate keys. It works without settings, which cannot be loaded without keys."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core.secrets.keyring import new_encryption_key, new_random_key

_MAKERS = {"secret": new_random_key, "encryption": new_encryption_key, "log": new_random_key}
_FILES = {"secret": "secret-key", "encryption": "encryption-keys", "log": "log-keys"}


class Command(BaseCommand):
    """Prints one key, or writes all into files of mode 600."""

    help = "Print a new key for GATEWAY_SECRET_KEY, GATEWAY_ENCRYPTION_KEYS or GATEWAY_LOG_KEYS, or write all three."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        wanted = parser.add_mutually_exclusive_group(required=True)
        wanted.add_argument("kind", nargs="?", choices=_MAKERS, help="which key to print")
        wanted.add_argument(
            "--directory", type=Path, help=f"write {', '.join(_FILES.values())} there, for the `*_FILE` variables"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if (kind := options["kind"]) is not None:
            self.stdout.write(_MAKERS[kind]())
            return
        try:
            for file in _write_all(options["directory"]):
                self.stdout.write(str(file))
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from None


def _write_all(directory: Path) -> list[Path]:
    """Write all keys and return the files. No file is overwritten: what its key encrypted would be lost."""
    makers = {directory / name: _MAKERS[kind] for kind, name in _FILES.items()}
    for file in makers:
        if file.exists():
            raise CommandError(f"{file} is there already; nothing was written")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file, make in makers.items():
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            opened.write(f"{make()}\n")
    return list(makers)
