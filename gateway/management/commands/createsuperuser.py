"""`manage.py createsuperuser`: Django's own, with a record in the operations log."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser

from audit.model_changes.recording import call_of_command, recorded
from keys.models import Person


class Command(createsuperuser.Command):
    """Make a local account that may do everything."""

    def handle(self, *args: Any, **options: Any) -> str | None:
        """Ask for what was not given and make it."""
        with recorded(call_of_command("createsuperuser"), operation="people.create") as administration:
            before = set(Person.objects.filter(is_superuser=True).values_list("pk", flat=True))
            told: str | None = super().handle(*args, **options)
            for person in Person.objects.filter(is_superuser=True).exclude(pk__in=before):
                administration.note_new_row(person)
        return told
