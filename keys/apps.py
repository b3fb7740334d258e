"""The app of credentials: people, roles, API keys and tokens."""

from importlib import import_module

from django.apps import AppConfig


class KeysConfig(AppConfig):
    name = "keys"
    verbose_name = "Keys and people"

    def ready(self) -> None:
        """Declare how the app's own tables are logged: importing these modules fills the registry."""
        import_module("keys.log_descriptions")
