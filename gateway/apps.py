"""The gateway itself as a Django app: kept answers, management commands, and operations about itself."""

from importlib import import_module

from django.apps import AppConfig
from django.contrib.admin import apps as admin


class BackOfficeConfig(admin.AdminConfig):
    """Django admin with a site of our own."""

    default = False
    default_site = "gateway.back_office.BackOffice"


class GatewayConfig(AppConfig):
    name = "gateway"
    default = True

    def ready(self) -> None:
        """Declare the app's operations: importing their modules fills the registry."""
        import_module("gateway.operations")
