"""Files and modules that the pages name exist."""

import re
from pathlib import Path

import pytest

from core.operation import operations
from keys.permission_catalogue import MEANINGS
from lab.commands import PROJECT
from tests.docs.pages import pages, prose, texts

_FOLDERS = {path.name for path in PROJECT.iterdir() if path.is_dir()} - {"var"}
_PACKAGES = {folder for folder in _FOLDERS if (PROJECT / folder / "__init__.py").exists()}
_NAMES = {path.name for path in texts()}

NO_MODULES = {*MEANINGS, *(each.name for each in operations()), "gateway.toml", "gateway.example.com"}
"""Names that only look like modules."""


def _quoted(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


def _has_module(dotted: str) -> bool:
    """Whether a dotted name is a module of ours, or something that the module's text names."""
    place, parts = PROJECT, dotted.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").is_file():
        place /= f"{parts.pop(0)}.py"
    elif parts:
        place /= "__init__.py"
    return not parts or bool(re.search(rf"\b{re.escape(parts[0])}\b", place.read_text("utf-8")))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(PROJECT)))
def test_named_files_exist(page: Path) -> None:
    for quoted in _quoted(page):
        if not re.fullmatch(r"[\w./-]+", quoted):
            continue
        if quoted.partition("/")[0] in _FOLDERS and "/" in quoted:
            assert (PROJECT / quoted).exists() or (page.parent / quoted).exists(), f"there is no {quoted}"
        elif re.fullmatch(r"[\w-]+\.(py|md|tsv)", quoted):
            assert quoted in _NAMES, f"there is no {quoted}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(PROJECT)))
def test_named_modules_exist(page: Path) -> None:
    for quoted in _quoted(page):
        dotted = re.match(r"[a-z_]+(?:\.\w+)+", quoted)
        if dotted and dotted[0].partition(".")[0] in _PACKAGES and dotted[0] not in NO_MODULES:
            assert _has_module(dotted[0]), f"there is no {dotted[0]}"
