"""The console as a Django app without tables: it brings template tags and static files."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"
