"""The folders of the product, as the contracts in pyproject.toml name them: a folder that is added is looked at too."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.commands import PROJECT

_PROJECT_FILE: Final = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
_FLOORS: Final = next(
    each["layers"]
    for each in _PROJECT_FILE["tool"]["importlinter"]["contracts"]
    if each["name"] == "Every floor stands on those below it"
)
FOLDERS: Final[tuple[str, ...]] = tuple(folder for floor in _FLOORS for folder in floor.split(" | "))


def sources() -> Iterator[Path]:
    """Every module of the product but the migrations."""
    for folder in FOLDERS:
        for file in sorted((PROJECT / folder).rglob("*.py")):
            if "migrations" not in file.parts:
                yield file
