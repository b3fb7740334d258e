"""The release before this tree, as it is in the repository's history: what an upgrade begins from.

It is the newest tag `v…` before HEAD, or else the commit that `scripts/last-release` names.
"""

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.commands import PROJECT

_NAMED = PROJECT / "scripts" / "last-release"
_TREES = PROJECT / "var" / "tests" / "releases"
_COMMANDS = """\
import json
try:
    from lab.commands import manage_command, web_command, worker_command
except ImportError:  # of an earlier release
    from demo.services import manage_command, web_command, worker_command
web = web_command(host="127.0.0.1", port=%d, workers=1)
print(json.dumps({"manage": manage_command(), "web": web, "worker": worker_command()}))
"""


class NoHistory(Exception):
    """This tree is no checkout of the repository, or one without its history."""


@dataclass(frozen=True)
class Release:
    """A release by its name, and the folder with its files."""

    name: str
    tree: Path

    def commands(self, *, port: int, environment: Mapping[str, str]) -> dict[str, list[str]]:
        """How its own processes are run: `manage`, `web` with one process at the port, and `worker`."""
        done = subprocess.run(
            [sys.executable, "-c", _COMMANDS % port],
            cwd=self.tree,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        commands: dict[str, list[str]] = json.loads(done.stdout)
        return commands


PRESENT = Release("this tree", PROJECT)


def last_release() -> str:
    """The commit of the release before this tree; raises NoHistory."""
    try:
        named = _git("describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^").decode()
    except NoHistory:
        (named,) = (line for line in _NAMED.read_text().splitlines() if not line.startswith("#"))
    return _git("rev-parse", "--verify", f"{named.strip()}^{{commit}}").decode().strip()


def migrations_of(commit: str) -> frozenset[str]:
    """The migrations of the gateway's own apps at a commit, as `app.name`; raises NoHistory."""
    files = (Path(name) for name in _git("ls-tree", "-r", "--name-only", commit).decode().splitlines())
    return frozenset(
        f"{file.parts[0]}.{file.stem}"
        for file in files
        if file.parts[1:-1] == ("migrations",) and file.suffix == ".py" and file.stem[0] != "_"
    )


def previous_release() -> Release:
    """The release before this tree, unpacked; raises NoHistory.

    What is unpacked is kept between runs, with the bytecode that its processes make.
    """
    commit = last_release()
    tree = _TREES / commit
    _TREES.mkdir(parents=True, exist_ok=True)
    with (_TREES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one unpacks
        if not tree.exists():
            for outdated in _TREES.glob("?" * 40 + "*"):
                shutil.rmtree(outdated)
            partial = tree.with_suffix(".partial")
            partial.mkdir()
            # `tarfile` of Debian's Python 3.11.2 knows no filters.
            subprocess.run(["tar", "-x", "-C", partial], input=_git("archive", commit), check=True)
            partial.rename(tree)
    return Release(f"the release before ({commit[:7]})", tree)


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=PROJECT, capture_output=True, check=False)
    except FileNotFoundError:
        raise NoHistory("git is not installed") from None
    if done.returncode != 0:
        raise NoHistory(done.stderr.decode().strip())
    return done.stdout
