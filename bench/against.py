"""An earlier commit in a work tree of its own, to be measured beside this one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.turns import Result
from lab.commands import PROJECT

_RATE, _PROCESSOR = 2.3, 0.45
"""What reads are to reach against commit 5c063a4: their rate on eight connections, and their processor time."""


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
    with TemporaryDirectory(prefix="bench-", dir=parent) as place:
        tree = Path(place) / commit
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def print_ratios(results: list[Result], before: str) -> None:
    """How often as many requests are answered as by the commit before, for which part of the processor time."""
    earlier = {result.measure.name: result for result in results if result.gateway == before}
    print(f"\n| Measure | against {before} | rate | web CPU | domain controller CPU |\n|---|---|---|---|---|")
    for result in results:
        old = earlier.get(result.measure.name)
        if old is None or result is old or "web" not in result.processor or result.database != old.database:
            continue
        rate = f"{old.through / result.through:.2f} ×"
        web, controller = (_ratio(result, old, part) for part in ("web", "domain controller"))
        if result.measure.name.startswith("read of people"):
            web += f" (target ≤ {_PROCESSOR})"
            if "8 connections" in result.measure.name:
                rate += f" (target ≥ {_RATE})"
        print(f"| {result.measure.name} | {result.gateway} | {rate} | {web} | {controller} |")


def _ratio(result: Result, old: Result, part: str) -> str:
    return f"{result.processor[part] / old.processor[part]:.2f} ×" if old.processor[part] else "–"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=PROJECT, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
