"""The app of the directory: connections, the objects in them, and what can be done with these."""

from importlib import import_module

from django.apps import AppConfig


class DirectoryConfig(AppConfig):
    name = "directory"
    verbose_name = "Directory"

    def ready(self) -> None:
        """Declare how the app's own tables are logged: importing these modules fills the registry."""
        import_module("directory.log_descriptions")
        sign_in_by = import_module("directory.lookup.connection").sign_in_by
        sign_in_by(import_module("directory.queries.bind_attempts").CountedOpener)
