"""The app of the directory: connections, the objects in them, and what can be done with these."""

from importlib import import_module

from django.apps import AppConfig


class DirectoryConfig(AppConfig):
    name = "directory"
    verbose_name = "Directory"

    def ready(self) -> None:
        """Declare the app's operations: importing their modules fills the registry."""
        import_module("directory.operations")
