"""The operations as a Django app without tables: importing their modules fills the registry."""

from importlib import import_module
from pkgutil import walk_packages

from django.apps import AppConfig

import operations


class OperationsConfig(AppConfig):
    name = "operations"

    def ready(self) -> None:
        """Declare every operation."""
        for found in walk_packages(operations.__path__, "operations."):
            if not found.name.startswith("operations.management"):
                import_module(found.name)
