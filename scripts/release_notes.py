"""Prints a release's section of the changelog: `python scripts/release_notes.py VERSION CHANGELOG`.

Exits 1 if the section is missing or empty.
"""

import re
import sys
from pathlib import Path

_HEADING = re.compile(r"^## +(?P<version>\S+)(?: .*)?$")


def notes_of(version: str, changelog: str) -> str | None:
    """The lines from `## VERSION …` to the next such heading, under a title with the version."""
    found: list[str] = []
    is_inside = False
    for line in changelog.splitlines():
        if heading := _HEADING.match(line):
            is_inside = heading["version"] == version
        elif is_inside:
            found.append(line)
    text = "\n".join(found).strip()
    return f"# Directory Management Gateway {version}\n\n{text}\n" if text else None


if __name__ == "__main__":
    notes = notes_of(sys.argv[1], Path(sys.argv[2]).read_text("utf-8"))
    if notes is None:
        sys.exit(1)
    sys.stdout.write(notes)
