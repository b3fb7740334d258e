"""Earlier states of the repository, and how the gateway of each is run.

The release before this tree is the newest tag `v…` before HEAD, or else the commit that `scripts/last-release` names.
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

_NAMED = PROJECT / "scripts" / "last-release"
_TREES = PROJECT / "var" / "tests" / "releases"
_COMMANDS = """\
import json, sys
try:
    from lab.commands import web_command, worker_command
except ImportError:  # of an earlier release
    from demo.services import web_command, worker_command
web = web_command(**json.loads(sys.argv[1]))
print(json.dumps({"web": web, "worker": worker_command()}))
"""


class NoHistory(Exception):
    """This tree is no checkout of the repository, or one without this commit."""


@dataclass(frozen=True)
class Release:
    """A release, or any commit, by its name, and the folder with its files."""

    name: str
    tree: Path

    def commands(
        self, environment: Mapping[str, str], *, port: int, processes: int | None = None
    ) -> dict[str, list[str]]:
        """How its own processes are run: `web` at the port, with so many processes, and `worker`."""
        given: dict[str, Any] = {"host": "127.0.0.1", "port": port} | ({"workers": processes} if processes else {})
        if self.tree == PROJECT:
            return {"web": web_command(**given), "worker": worker_command()}
        said = run([sys.executable, "-c", _COMMANDS, json.dumps(given)], environment=environment, directory=self.tree)
        commands: dict[str, list[str]] = json.loads(said)
        return commands

    @property
    def account_maker(self) -> str:
        """Its module that makes keys and people, see `lab.accounts`."""
        return "lab.accounts" if (self.tree / "lab").is_dir() else "faults.prepare"

    @property
    def has_agents(self) -> bool:
        """Whether it lets agents in; one that does not stops at a setting that it does not know."""
        return (self.tree / "gateway" / "surfaces" / "agent").is_dir()


PRESENT = Release("this tree", PROJECT)


def last_release() -> str:
    """The commit of the release before this tree; raises NoHistory."""
    try:
        named = _git("describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD^")
    except NoHistory:
        (named,) = (line for line in _NAMED.read_text().splitlines() if not line.startswith("#"))
    return _git("rev-parse", "--verify", f"{named.strip()}^{{commit}}")


def migrations_of(commit: str) -> frozenset[str]:
    """The migrations of the gateway's own apps at a commit, as `app.name`; raises NoHistory."""
    files = (Path(name) for name in _git("ls-tree", "-r", "--name-only", commit).splitlines())
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
            archive = _TREES / "archive.tar"
            _git("archive", "--output", str(archive), commit)
            run(["tar", "-x", "-C", partial, "-f", archive])
            archive.unlink()
            partial.rename(tree)
    return Release(f"the release before ({commit[:7]})", tree)


def commit_of(name: str) -> str:
    """The short name of a commit; of HEAD with `-dirty` behind it if files differ."""
    if name == "HEAD":
        return _git("describe", "--always", "--dirty", "--exclude=*", "--abbrev=7")
    return _git("rev-parse", "--short=7", f"{name}^{{commit}}")


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """A work tree of the commit under `var/`, removed afterwards. It is run with this checkout's Python packages."""
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
