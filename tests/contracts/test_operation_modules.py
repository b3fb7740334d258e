"""Any behaviour is found in two hops: an operation's id names the module, or the folder, that declares it."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from core.operation import Operation, operations
from operations.directory import common_operations


def declared_for(module: str) -> set[str]:
    """The resources for which a module declares the common operations."""
    source = Path(str(import_module(module).__file__)).read_text("utf-8")
    return {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.func, ast.Name)
        and hasattr(common_operations, node.func.id)
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


@pytest.mark.parametrize("operation", list(operations()), ids=lambda each: each.name)
def test_the_id_names_the_module(operation: Operation) -> None:
    module = operation.function.__module__
    resource = operation.resource.replace("-", "_")
    if module == common_operations.__name__:
        assert operation.resource in declared_for(f"operations.directory.{resource}")
    else:
        assert resource in module.split(".")[2:], f"{operation.name} is declared in {module}"
