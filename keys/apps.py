"""The app of credentials: people, roles, API keys and tokens."""

from importlib import import_module

from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"
    verbose_name = "Keys and people"

    def ready(self) -> None:
        """Declare the app's operations: importing their modules fills the registry."""
        import_module("keys.operations")
