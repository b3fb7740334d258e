"""Earlier commits of the repository, and the commands that run the gateway of each.

The previous release is the newest tag `v…` before HEAD, or else the commit that `scripts/last-release` names.
"""

import fcntl
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.commands import PROJECT, web_command, worker_command
from lab.processes import run

_LAST_RELEASE_FILE = PROJECT / "scripts" / "last-release"
_TREES = PROJECT / "var" / "tests" / "releases"
_COMMANDS = """\
import json, sys
try:
    from lab.commands import web_command, worker_command
except ImportError:  # an earlier release
    from demo.services import web_command, worker_command
web = web_command(**json.loads(sys.argv[1]))
print(json.dumps({"web": web, "worker": worker_command()}))
"""


class NoHistory(Exception):
    """This tree is not a checkout of the repository, or lacks this commit."""


@dataclass(frozen=True)
class Release:
    """A release, or any commit, by its name, and the folder with its files."""

    name: str
    tree: Path

    def commands(
        self, environment: Mapping[str, str], *, port: int, processes: int | None = None
    ) -> dict[str, list[str]]:
        """The commands of its processes: `web` at the port, with this many processes, and `worker`."""
        parameters: dict[str, Any] = {"host": "127.0.0.1", "port": port} | ({"workers": processes} if processes else {})
        if self.tree == PROJECT:
            return {"web": web_command(**parameters), "worker": worker_command()}
        output = run(
            [sys.executable, "-c", _COMMANDS, json.dumps(parameters)], environment=environment, directory=self.tree
        )
        commands: dict[str, list[str]] = json.loads(output)
        return commands

    @property
    def account_maker(self) -> str:
        """The module of the release that makes keys and people, as `lab.accounts` does."""
        return "lab.accounts" if (self.tree / "lab").is_dir() else "faults.prepare"

    @property
    def has_agents(self) -> bool:
        """Whether it supports agents; a release without them refuses to start with their settings."""
        return (self.tree / "gateway" / "surfaces" / "agent").is_dir()


THIS_TREE = Release("this tree", PROJECT)


def last_release() -> str:
    """The commit of the previous release; raises NoHistory."""
    try:
        named = _git("describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^")
    except NoHistory:
        (named,) = (line for line in _LAST_RELEASE_FILE.read_text().splitlines() if not line.startswith("#"))
    return _git("rev-parse", "--verify", f"{named.strip()}^{{commit}}")


def migrations_of(commit: str) -> frozenset[str]:
    """The migrations of the gateway's own apps at a commit, as `app.name`; raises NoHistory."""
    files = (Path(name) for name in _git("ls-tree", "-r", "--name-only", commit).splitlines())
    return frozenset(
        f"{file.parts[0]}.{file.stem}"
        for file in files
        if file.parts[1:-1] == ("migrations",) and file.suffix == ".py" and file.stem[0] != "_"
    )


def tasks_named_in(commit: str) -> frozenset[str]:
    """The names of tasks in the Python files of a commit; raises NoHistory."""
    return frozenset(_git("grep", "-ohE", r"\b(gateway|directory)\.tasks\.[a-z_]+", commit, "--", "*.py").splitlines())


def previous_release() -> Release:
    """Unpack the previous release; raises NoHistory.

    It is kept between runs, with the bytecode that its processes make.
    """
    commit = last_release()
    tree = _TREES / commit
    _TREES.mkdir(parents=True, exist_ok=True)
    with (_TREES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one of several test processes unpacks it
        if not tree.exists():
            for outdated in _TREES.glob("?" * 40 + "*"):
                shutil.rmtree(outdated)
            partial = tree.with_suffix(".partial")
            partial.mkdir()
            # By tar, since tarfile in Debian's Python 3.11.2 has no filters.
            archive = _TREES / "archive.tar"
            _git("archive", "--output", str(archive), commit)
            run(["tar", "-x", "-C", partial, "-f", archive])
            archive.unlink()
            partial.rename(tree)
    return Release(f"the release before ({commit[:7]})", tree)


def commit_of(name: str) -> str:
    """The short hash of a commit, for HEAD followed by `-dirty` if files differ."""
    if name == "HEAD":
        return _git("describe", "--always", "--dirty", "--exclude=*", "--abbrev=7")
    return _git("rev-parse", "--short=7", f"{name}^{{commit}}")


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out the commit below `var/`, and remove it afterwards. It runs with this checkout's Python packages."""
    parent = PROJECT / "var"
    parent.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="commit-", dir=parent) as place:
        tree = Path(place) / commit
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str:
    try:
        return run(["git", *arguments], directory=PROJECT).strip()
    except RuntimeError as error:
        raise NoHistory(str(error)) from error
