"""Shared by commands: the call with which they run operations, the text of a refusal, and groups of commands."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from django.core.management import BaseCommand, CommandError, get_commands, load_command_class
from django.core.management.base import CommandParser

from audit.model_changes.recording import call_of_command
from core.call import Call
from core.errors import GatewayError
from keys.permission_catalogue import names_by_key


def administrator_call(command: str) -> Call:
    """A call with all permissions: whoever runs the command has the database and its keys anyway."""
    call = call_of_command(command)
    return replace(call, permissions=frozenset(names_by_key().values()))


def in_words(refusal: GatewayError) -> str:
    """The text of a refusal, with the pointers to the members of the body."""
    named = (f"{error.pointer}: {error.detail}" if error.pointer else error.detail for error in refusal.errors)
    return "; ".join(named) or refusal.detail


class CommandGroup(BaseCommand):
    """A command with subcommands: `gateway log verify` runs `manage.py verify_operations_log`."""

    commands: ClassVar[Mapping[str, str]]
    """The management command for each subcommand."""

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the subcommand, or print the usage."""
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
