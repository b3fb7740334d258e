"""Supervision and change requests as a Django app."""

from importlib import import_module

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"
    verbose_name = "Approvals"

    def ready(self) -> None:
        """Declare how the app's own tables are logged: importing these modules fills the registry."""
        import_module("approvals.log_descriptions")
