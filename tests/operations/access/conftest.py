"""The people and connections of the tests of credentials."""

from tests.keys.conftest import connection, console, make_directory, superuser

__all__ = ["connection", "console", "make_directory", "superuser"]
