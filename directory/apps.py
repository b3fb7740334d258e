"""The directory app."""

from importlib import import_module

from django.apps import AppConfig


class DirectoryConfig(AppConfig):
    name = "directory"
    verbose_name = "Directory"

    def ready(self) -> None:
        """Register the log descriptions of the app's tables, and the opener that counts bind attempts."""
        import_module("directory.log_descriptions")
        use_opener = import_module("directory.lookup.connection").use_opener
        use_opener(import_module("directory.queries.bind_attempts").CountedOpener)
