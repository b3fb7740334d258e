"""Which tests need no servers (`--quick`), by what they ask for: their fixtures, and what their modules import."""

import subprocess
import sys
from types import ModuleType

import pytest

from lab.processes import start_process


def is_quick(item: pytest.Item) -> bool:
    """Whether a test uses no database, shares no fixture with others, and is in a module that starts no processes.

    A fixture that is made once for several tests is a server, or takes as long as one.
    """
    uses_database = item.get_closest_marker("django_db") is not None
    return isinstance(item, pytest.Function) and not (
        uses_database or _has_shared_fixture(item) or _starts_processes(item.module)
    )


def _has_shared_fixture(item: pytest.Function) -> bool:
    fixtures = (fixture for found in item._fixtureinfo.name2fixturedefs.values() for fixture in found)
    return any(fixture.scope != "function" and fixture.baseid.startswith("tests") for fixture in fixtures)


def _starts_processes(module: ModuleType) -> bool:
    """By itself, or by something imported that starts servers."""
    held = [*vars(module).values()]
    origins = {sys.modules.get(getattr(value, "__module__", None) or "") for value in held}
    return subprocess in held or any(origin and start_process in vars(origin).values() for origin in origins)
