"""The operations log as a Django app."""

from importlib import import_module

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "audit"
    verbose_name = "Operations log"

    def ready(self) -> None:
        """Import the module that declares how the log describes the app's own tables."""
        import_module("audit.log_descriptions")
