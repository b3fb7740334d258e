"""The command `gateway`: every management command, with the gateway's own packages found first.

`gateway --env-file FILE …` first reads variables from a file, as systemd and container engines do, so that a command
run by hand has the same settings as the services.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Final

_INSTALLED = Path(__file__).resolve().parent / "apps"
ROOT: Final = _INSTALLED if _INSTALLED.is_dir() else _INSTALLED.parent.parent
"""The folder that contains the packages `gateway`, `directory`, …: in the wheel, or the repository itself."""

_ENV_FILE: Final = "--env-file"
_TRACEBACK: Final = "--traceback"  # Django's own option
_MIN_FREE_BYTES: Final = 1 << 20


def main() -> None:
    """Run one command and exit with its status."""
    sys.argv[0] = "gateway"  # in usage lines, also after `python -m`
    for file in _take_env_files(sys.argv):
        _read_env_file(Path(file))
    # Our packages come before installed ones of the same names, here and in child processes. Those must not import from
    # their working directory, either.
    sys.path.insert(0, str(ROOT))
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *(path for path in others if path not in ("", str(ROOT)))])
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    if sys.argv[1:3] == ["keys", "new"]:
        _make_keys(sys.argv[3:])
    else:
        _run()


def _make_keys(arguments: list[str]) -> None:
    """Run `gateway keys new` without settings, which cannot be loaded before the keys exist."""
    from django.core.management import CommandError

    from gateway.management.commands.new_keys import Command

    command = Command()
    # Otherwise a wrong option would raise CommandError instead of printing the usage.
    command._called_from_command_line = True  # type: ignore[attr-defined]
    options = command.create_parser("gateway", "keys new").parse_args(arguments)
    try:
        command.handle(**vars(options))
    except CommandError as error:
        sys.exit(f"gateway: {error}")


def _run() -> None:
    from django.core.management import execute_from_command_line
    from django.db.utils import InterfaceError, OperationalError

    try:
        execute_from_command_line(sys.argv)
    except (InterfaceError, OperationalError) as error:
        if _TRACEBACK in sys.argv:
            raise
        sys.exit(f"gateway: the database: {str(error).strip()}{_full_disk_hint()}")
    except OSError as error:
        if _TRACEBACK in sys.argv or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.exit(f"gateway: {error.filename}: {error.strerror}" if error.filename else f"gateway: {error.strerror}")


def _full_disk_hint() -> str:
    """Return a hint if the disk is full: SQLite only reports an I/O error, or that it cannot open its file."""
    from django.conf import settings

    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("sqlite3"):
        return ""
    folder = Path(database["NAME"]).parent
    try:
        disk = os.statvfs(folder)
    except OSError:
        return ""
    has_room = disk.f_bavail * disk.f_frsize > _MIN_FREE_BYTES and (disk.f_favail or not disk.f_files)
    return "" if has_room else f" (no space is left on the disk of {folder})"


def _take_env_files(arguments: list[str]) -> list[str]:
    """Remove each `--env-file FILE` before the command from the arguments; return the files."""
    files = []
    while len(arguments) > 1 and arguments[1].partition("=")[0] == _ENV_FILE:
        _, joined, file = arguments.pop(1).partition("=")
        if not joined and len(arguments) > 1:
            file = arguments.pop(1)
        if not file:
            sys.exit(f"gateway: {_ENV_FILE} needs the name of a file")
        files.append(file)
    return files


def _read_env_file(file: Path) -> None:
    """Set the variables of a file that are not set yet: `NAME=value` in each line, comments after `#` or `;`.

    As in systemd.exec(5), a value may stand in quotes; nothing is expanded.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        sys.exit(f"gateway: {file} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}")
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        name, separator, value = text.partition("=")
        if not separator or not name.strip().isidentifier():
            sys.exit(f"gateway: line {number} of {file} is not NAME=value")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        os.environ.setdefault(name.strip(), value)
