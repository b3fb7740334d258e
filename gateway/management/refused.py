"""Commands of libraries that change the gateway's own tables without a record: refused, with what to do instead."""

from typing import Any

from django.core.management import BaseCommand, CommandError


class RefusedCommand(BaseCommand):
    help = "Not offered: agents and their clients are managed in the console, and swept by the workers."

    def handle(self, *_: Any, **__: Any) -> None:
        raise CommandError("Manage agents and their clients in the console (Agents); workers sweep what is over.")
