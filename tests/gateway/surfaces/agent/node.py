"""The Node.js and the packages of `tests/node`, as `scripts/bootstrap test` installed them."""

import os
from pathlib import Path

from lab.commands import PROJECT


def node_modules() -> Path:
    found = PROJECT / "tests" / "node" / "node_modules"
    assert found.is_dir(), "run scripts/bootstrap test"
    return found


def node_environment() -> dict[str, str]:
    """PATH with the Node.js that bootstrap chose: it is in the virtual environment only if the machine has none."""
    return {**os.environ, "PATH": f"{PROJECT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
