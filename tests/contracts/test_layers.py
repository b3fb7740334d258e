"""The house as pyproject.toml declares it: every module stands in a layer, and no two files need one another."""

import re
import tomllib
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest

from tests.support.house import FOLDERS

_PROJECT_FOLDER = Path(__file__).parents[2]
_PROJECT = tomllib.loads((_PROJECT_FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
_RULES = _PROJECT["tool"]["importlinter"]


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Of the product, and of what stands beside it."""
    return grimp.build_graph(*_RULES["root_packages"])


def _layers() -> set[str]:
    contract = next(each for each in _RULES["contracts"] if each["name"] == "Every module stands in its layer")
    return {module.strip() for line in contract["layers"] for module in line.replace("|", ":").split(":")}


def test_every_module_stands_in_a_layer(imports: grimp.ImportGraph) -> None:
    layers = _layers()
    homeless = {
        module
        for module in imports.modules
        if module.partition(".")[0] in FOLDERS
        and not any(module == layer or module.startswith(f"{layer}.") for layer in layers)
        and not any(layer.startswith(f"{module}.") for layer in layers)  # the app itself
        and ".migrations" not in module
        and not module.endswith(".management")
        and ".management." not in module
    }
    assert not homeless, f"name these in the layers of pyproject.toml: {sorted(homeless)}"


def test_no_layer_is_empty(imports: grimp.ImportGraph) -> None:
    assert not _layers() - imports.modules


def test_extras_are_imported_in_one_place_each() -> None:
    """Everything else has to work where only requirements.txt is installed, imports inside functions included."""
    locked = set(re.findall(r"^[a-z0-9-]+(?=\[|==)", (_PROJECT_FOLDER / "requirements.txt").read_text(), re.MULTILINE))
    graph = grimp.build_graph(*FOLDERS, include_external_packages=True, cache_dir=None)
    brought_by = packages_distributions()
    extras = {
        module
        for module in graph.modules
        if module in brought_by
        and locked.isdisjoint(re.sub("[-_.]+", "-", name.lower()) for name in brought_by[module])
    }
    needing = {user for module in extras for user in graph.find_modules_that_directly_import(module)}
    assert needing == {"gateway.surfaces.agent.protocol", "core.tracing.span_export"}


def test_no_files_need_one_another(imports: grimp.ImportGraph) -> None:
    """Imports inside functions count too: a circle hidden in one is a circle."""
    needs = {module: imports.find_modules_directly_imported_by(module) for module in imports.modules}
    tuple(TopologicalSorter(needs).static_order())  # raises CycleError naming them
