"""The operations log as a Django app."""

from importlib import import_module

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "audit"
    verbose_name = "Operations log"

    def ready(self) -> None:
        """Declare the app's operations and own tables: importing their modules fills the registries."""
        import_module("audit.operations")
        import_module("audit.webhooks.log_descriptions")
