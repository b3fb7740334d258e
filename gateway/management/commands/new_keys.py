"""`gateway keys new`: keys of good length from the system's generator."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway.management import new_keys


class Command(BaseCommand):
    """The command `gateway` answers it without settings; here it is for `manage.py`, and for the list of commands."""

    help = new_keys.HELP
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        new_keys.add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            lines = new_keys.make(kind=options["kind"], directory=options["directory"])
        except new_keys.CannotWrite as error:
            raise CommandError(str(error)) from None
        self.stdout.write("\n".join(lines))
