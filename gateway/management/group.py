"""Commands with commands of their own: `gateway log verify` is `manage.py verify_operations_log`, and so on."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.management import BaseCommand, CommandError, get_commands, load_command_class
from django.core.management.base import CommandParser


class CommandGroup(BaseCommand):
    """Hands over to the command that is named; options and help are that one's."""

    commands: ClassVar[Mapping[str, str]]
    """Each name below this one, and the management command that it stands for."""

    def run_from_argv(self, argv: list[str]) -> None:
        """Run what is named, or say what there is."""
        program, group, *rest = argv
        if not rest or rest[0] not in self.commands:
            super().run_from_argv(argv)
            return
        name = self.commands[rest[0]]
        app = get_commands()[name]
        command = app if isinstance(app, BaseCommand) else load_command_class(app, name)
        command.run_from_argv([program, f"{group} {rest[0]}", *rest[1:]])

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("command", choices=self.commands, help="`COMMAND --help` tells of its options")

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError(f"Begin with one of {', '.join(self.commands)}.")
