"""What `make release` says of a release. The wheel itself is installed by `test_installation`."""

import subprocess
import sys

import pytest

from lab.commands import PROJECT

CHANGELOG = """\
# Changelog

## Unreleased

- Later.

## 0.2.0 (2026-11-22)

- New.

### In detail

- More.

## 0.2.0.1

- Another.

## 0.1.0
"""


def notes_of(version: str) -> subprocess.CompletedProcess[str]:
    script = PROJECT / "scripts" / "release_notes.py"
    return subprocess.run(
        [sys.executable, script, version, "/dev/stdin"], input=CHANGELOG, capture_output=True, text=True, check=False
    )


def test_notes_are_the_section_of_the_release() -> None:
    assert notes_of("0.2.0").stdout == "# Directory Management Gateway 0.2.0\n\n- New.\n\n### In detail\n\n- More.\n"


@pytest.mark.parametrize("version", ["0.1.0", "0.3.0"])
def test_a_release_without_notes_is_none(version: str) -> None:
    assert notes_of(version).returncode == 1
