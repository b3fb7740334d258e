"""Keeps the gateway's files private to its own account: it creates them so, and checks them at every start.

A single machine's database, generated secrets and the log's checkpoint are in the data directory. Whoever can read or
replace them is as good as an administrator.
"""

import os
import stat
import sys
from pathlib import Path

from core.configuration import BadConfiguration

OTHERS = 0o077
_WRITABLE_BY_OTHERS = 0o022


def make_private_by_default() -> None:
    """Make this process and its children create files that no other account may read."""
    os.umask(OTHERS)


def make_directory(directory: Path, setting: str) -> None:
    """Make the directory if it is missing. Raises BadConfiguration, which names the setting."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfiguration(f"{setting}: {directory} cannot be made: {error.strerror}") from None


def require_writable_directory(directory: Path, setting: str) -> None:
    """Make the directory if it is missing, and require that this account may write to it. Raises BadConfiguration."""
    make_directory(directory, setting)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise BadConfiguration(f"{setting}: this account may not write to {directory}")


def require_private_directory(directory: Path, setting: str) -> None:
    """Require that nobody else may put files into an existing directory. Raises BadConfiguration.

    It corrects the mode of a directory of its own, but never that of a shared one (/tmp). Others may list the
    directory: each file in it is private.
    """
    mode = directory.stat().st_mode
    if not mode & _WRITABLE_BY_OTHERS:
        return
    if mode & stat.S_ISVTX or not _change_mode(directory, mode & ~_WRITABLE_BY_OTHERS):
        raise BadConfiguration(
            f"{setting}: other accounts may write to {directory} (mode {stat.S_IMODE(mode):o}); "
            "name a directory of the gateway's own, of mode 700"
        )


def require_private(file: Path) -> None:
    """Require that nobody else may read or change a file, if it exists. Raises BadConfiguration.

    It corrects the mode of a file of its own, which an earlier release or somebody's copying may have left open.
    """
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        return
    if mode & OTHERS and not _change_mode(file, mode & ~OTHERS):
        raise BadConfiguration(
            f"{file}: other accounts may read or change it (mode {stat.S_IMODE(mode):o}), and it is not this "
            "account's to close; give it to this account with mode 600"
        )


def database_files(file: Path) -> tuple[Path, ...]:
    """An SQLite database and the files that SQLite makes beside it, with the same mode."""
    return (file, *(file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-shm", "-journal")))


def _change_mode(path: Path, mode: int) -> bool:
    try:
        path.chmod(stat.S_IMODE(mode))
    except OSError:
        return False
    # To stderr, because logging is not set up while settings are read.
    sys.stderr.write(f"{path} was open to other accounts; its mode is {stat.S_IMODE(mode):o} now.\n")
    return True
