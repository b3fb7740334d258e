"""The gateway itself as a Django app: kept answers, management commands, and operations about itself."""

from importlib import import_module

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "gateway"

    def ready(self) -> None:
        """Declare the app's operations: importing their modules fills the registry."""
        import_module("gateway.operations")
