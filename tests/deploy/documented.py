"""The commands that `docs/operations.md` tells an operator to give.

`python -m tests.deploy.documented Install` prints those of a section.
"""

import re
import sys

from demo.services import PROJECT

_BLOCK = re.compile(r"^```console\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(section: str) -> list[str]:
    """Those of root in the section with that heading, without what stands below smaller headings."""
    page = (PROJECT / "docs" / "operations.md").read_text()
    (text,) = (part for part in re.split(r"^##+ ", page, flags=re.MULTILINE) if part.startswith(f"{section}\n"))
    lines = [line for block in _BLOCK.finditer(text) for line in block["lines"].splitlines()]
    assert all(line.startswith("# ") for line in lines), lines
    return [line.removeprefix("# ") for line in lines]


if __name__ == "__main__":
    print("\n".join(commands(sys.argv[1])))  # noqa: T201 - a program
