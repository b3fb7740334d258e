"""The operations as a Django app without tables: importing their modules fills the registry."""

from importlib import import_module

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "operations"

    def ready(self) -> None:
        """Declare every operation."""
        for place in ("access", "approvals", "directory", "gateway", "log"):
            import_module(f"operations.{place}")
