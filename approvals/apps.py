"""Supervision and change requests as a Django app."""

from importlib import import_module

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"
    verbose_name = "Approvals"

    def ready(self) -> None:
        """Declare the app's operations and own tables: importing their modules fills the registries."""
        import_module("approvals.operations")
        import_module("approvals.log_descriptions")
