"""`manage.py changepassword`: Django's own, with a record in the operations log."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword

from audit.model_changes.recording import call_of_command, recorded
from keys.models import Person


class Command(changepassword.Command):
    """Change a local account's password."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Ask for the password and set it."""
        with recorded(call_of_command("changepassword"), operation="people.update") as administration:
            for person in Person.objects.filter(username=options["username"] or getpass.getuser()):
                administration.watch_row(person)
            told: str | None = super().handle(*args, **options)
        return told
