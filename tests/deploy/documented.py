"""The commands that `docs/operations.md` tells an operator to give.

`python -m tests.deploy.documented Install` prints those of a section.
"""

import re
import sys

from lab.commands import PROJECT

_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)


def settings(section: str) -> str:
    """The lines of an environment's file in the section with that heading."""
    return "".join(_blocks(section, "ini"))


def _blocks(section: str, kind: str) -> list[str]:
    """Without those below smaller headings."""
    page = (PROJECT / "docs" / "operations.md").read_text()
    (text,) = (part for part in re.split(r"^##+ ", page, flags=re.MULTILINE) if part.startswith(f"{section}\n"))
    return [block["lines"] for block in _BLOCK.finditer(text) if block["kind"] == kind]


def commands(section: str) -> list[str]:
    """Those of root in the section with that heading, without what stands below smaller headings."""
    lines = [line for block in _blocks(section, "console") for line in block.splitlines()]
    assert all(line.startswith("# ") for line in lines), lines
    return [line.removeprefix("# ") for line in lines]


if __name__ == "__main__":
    print("\n".join(commands(sys.argv[1])))  # noqa: T201 - a program
