"""The operations log as a Django app."""

from importlib import import_module

from django.apps import AppConfig


class AuditConfig(AppConfig):
    name = "audit"
    verbose_name = "Operations log"

    def ready(self) -> None:
        """Declare how the app's own tables are logged: importing these modules fills the registry."""
        import_module("audit.webhooks.log_descriptions")
