"""`manage.py slim_operations_log`: write records once, which the release before cannot work with."""

from typing import Any

from django.core.management.base import BaseCommand

from audit.chain import marks


class Command(BaseCommand):
    """Drop what only the release before needs of the operations log."""

    help = (
        "Drop two indexes of the operations log that only the release before needs, and no longer note in each record "
        "how it was sealed: a record of a read is then written once. Nobody waits for it. You cannot go back to the "
        "release before after that. A log that was begun with this release is slim already."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        was_wanted = marks.are_wanted()
        marks.give_up()
        self.stdout.write("Records are no longer written again." if was_wanted else "The log is slim already.")
