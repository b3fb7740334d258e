"""The pages that people read in the repository, and the places in them that can be linked to."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lab.commands import PROJECT

_NOT_OURS = frozenset({"node_modules", "var", "generated", "dist", "build"})
_TEXTS = frozenset({".py", ".md", ".html", ".toml", ".sh", ".json", ".yml", ".txt", ".ts", ".js", ".tsv"})


def texts() -> Iterator[Path]:
    """Every text file of the project, without what is installed or made."""
    for folder, folders, names in os.walk(PROJECT):
        folders[:] = [name for name in folders if name not in _NOT_OURS and (name == ".ci" or name[0] != ".")]
        yield from (Path(folder, name) for name in names if Path(name).suffix in _TEXTS or name == "Makefile")


def pages() -> list[Path]:
    return sorted(path for path in texts() if path.suffix == ".md" and "tests" not in path.parts)


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> frozenset[str]:
    """What can stand behind # in a link to a page: GitHub's names of its headings, which the site has too."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", prose(page), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return frozenset(found)
