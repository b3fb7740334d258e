"""The pages that people read in the repository, and the places in them that can be linked to."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from demo.services import PROJECT

_ELSEWHERE = frozenset({".git", ".venv", "node_modules", "var", "generated", "dist", "build"})
_TEXTS = frozenset({".py", ".md", ".html", ".toml", ".sh", ".json", ".yml", ".txt", ".ts", ".js", ".tsv"})


def texts() -> Iterator[Path]:
    """Every text file of the project, without what is installed or made."""
    for folder in (PROJECT, *(each for each in PROJECT.iterdir() if each.is_dir() and each.name not in _ELSEWHERE)):
        for path in folder.iterdir() if folder == PROJECT else folder.rglob("*"):
            is_ours = not _ELSEWHERE & set(path.relative_to(PROJECT).parts[:-1])
            if is_ours and path.is_file() and (path.suffix in _TEXTS or path.name == "Makefile"):
                yield path


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
