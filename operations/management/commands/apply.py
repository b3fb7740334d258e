"""`gateway apply FILE`: brings connections, roles, groups, keys and webhooks in line with a file."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from audit.model_changes.descriptions import RowChange
from core.errors import GatewayError
from gateway.management.command_line import administrator_call, in_words
from gateway.pipeline.perform import all_or_nothing
from operations.management.declarations import (
    DeclarationApplier,
    Declarations,
    find_undeclared,
    merge_changes,
    read_declarations,
)

_VERBS = {"create": "Add", "update": "Change", "delete": "Delete"}
_NOUNS = {
    "directories": "directory connection",
    "roles": "role",
    "permission-groups": "group",
    "api-keys": "API key",
    "webhook-endpoints": "webhook",
}
_IDENTIFIERS = ("role", "scopeObjects", "directoryGroupObjects", "name")
"""Attributes that repeat another one as an id."""


class Command(BaseCommand):
    """Applies all of the file or nothing; rows that it does not name stay as they are."""

    help = "Bring connections, roles, groups, API keys and webhooks to what a file declares. Deletes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the declarations, in TOML")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        parser.add_argument(
            "--secrets-file",
            type=Path,
            help="a new file, of mode 600, for the values of new keys and the signing secrets of new webhooks",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file, dry_run = options["file"], options["dry_run"]
        declared = _read(file)
        applier: DeclarationApplier | None = None
        try:
            with (
                _kept_if_committed(None if dry_run else options["secrets_file"]) as keep,
                all_or_nothing(administrator_call("apply"), dry_run=dry_run) as changes,
            ):
                applier = DeclarationApplier(changes)
                applier.apply(declared)
                undeclared = find_undeclared(declared)
                if not dry_run:
                    keep(applier.secrets)
        except GatewayError as refusal:
            place = f"{applier.place}: " if applier and applier.place else ""
            raise CommandError(f"{file}: {place}{in_words(refusal)}. Nothing was changed.") from None
        self._tell(merge_changes(changes.made), undeclared, dry_run=dry_run)

    def _tell(self, made: list[RowChange], undeclared: list[str], *, dry_run: bool) -> None:
        for item in made:
            self.stdout.write(f"{_VERBS[item.action]} {_NOUNS[item.table.resource]} {item.name}")
            for change in item.changes:
                if change["attribute"] not in _IDENTIFIERS:
                    before = f"{_shown(change['before'])} → " if item.before else ""
                    self.stdout.write(f"  {change['attribute']}: {before}{_shown(change['after'])}")
        for place in undeclared:
            self.stdout.write(f"Not in the file, left alone: {place}")
        if not made:
            self.stdout.write("Everything is as the file says.")
        elif dry_run:
            self.stdout.write("This was a dry run: nothing was changed.")


def _shown(values: list[str]) -> str:
    """The values on one line; of a certificate only its first line."""
    lines = (value if value.isprintable() else f"{value.splitlines()[0]} …" for value in values)
    return "".join(letter for letter in ", ".join(lines) if letter.isprintable()) or "(none)"


def _read(file: Path) -> Declarations:
    try:
        return read_declarations(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {getattr(error, 'strerror', None) or 'is no text'}") from None
    except GatewayError as refusal:
        raise CommandError(f"{file}: {in_words(refusal)}") from None


@contextmanager
def _kept_if_committed(file: Path | None) -> Iterator[Any]:
    """Write secrets before the commit, so that none is lost; remove the file again if the commit fails."""
    is_written = False

    def keep(secrets: dict[str, dict[str, dict[str, Any]]]) -> None:
        nonlocal is_written
        if not any(secrets.values()):
            return
        if file is None:
            raise CommandError("There are new keys or webhooks: name a file for their secrets with --secrets-file.")
        try:
            # O_EXCL: neither overwrites a file nor follows a link that somebody has planted.
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                is_written = True
                opened.write(_as_toml(secrets))
                opened.flush()
                os.fsync(opened.fileno())
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}. Nothing was changed.") from None

    try:
        yield keep
    except BaseException:
        if file is not None and is_written:
            file.unlink(missing_ok=True)
        raise


def _as_toml(secrets: dict[str, dict[str, dict[str, Any]]]) -> str:
    lines = []
    for section, items in secrets.items():
        for name, values in items.items():
            lines.append(f"[{section}.{_quoted(name)}]")
            for member, value in values.items():
                if isinstance(value, dict):
                    text = ", ".join(f"{_quoted(each)} = {_quoted(it)}" for each, it in value.items())
                    lines.append(f"{member} = {{ {text} }}")
                else:
                    lines.append(f"{member} = {_quoted(value)}")
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
