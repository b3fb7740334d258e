"""Files of the gateway are for its own account alone: what it makes is, and what it finds is looked at when it starts.

The database of a single machine, the generated secrets and the log's mark lie in the data directory. Whoever may read
them is as good as an administrator, and whoever may put others in their place too.
"""

import os
import stat
import sys
from pathlib import Path

from core.configuration import BadConfiguration

OTHERS = 0o077
_WRITABLE_BY_OTHERS = 0o022


def make_private_by_default() -> None:
    """Let this process, and those that it starts, make files that no other account may read."""
    os.umask(OTHERS)


def make_directory(directory: Path, setting: str) -> None:
    """Make the directory if it is not there; raises BadConfiguration, which names the setting."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadConfiguration(f"{setting}: {directory} cannot be made: {error.strerror}") from None


def require_writable_directory(directory: Path, setting: str) -> None:
    """Make the directory if it is not there, for this account to put files into; raises BadConfiguration."""
    make_directory(directory, setting)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise BadConfiguration(f"{setting}: this account may not write to {directory}")


def require_private_directory(directory: Path, setting: str) -> None:
    """Nobody else may put files into the directory, which is there; raises BadConfiguration.

    One that others may look into stays so: the files in it are private each. A shared one (/tmp) is never changed.
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
    """Nobody else may read or change the file, if it is there; raises BadConfiguration.

    What an earlier release or somebody's copying left open is closed, if it is the gateway's own.
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
    """An SQLite database with the files that it has beside it. SQLite makes these with the mode of the first one."""
    return (file, *(file.with_name(f"{file.name}{suffix}") for suffix in ("-wal", "-shm", "-journal")))


def _change_mode(path: Path, mode: int) -> bool:
    try:
        path.chmod(stat.S_IMODE(mode))
    except OSError:
        return False
    # Settings are being read: logging is not set up yet.
    sys.stderr.write(f"{path} was open to other accounts; its mode is {stat.S_IMODE(mode):o} now.\n")
    return True
