"""`gateway keys create`: creates an API key on the command line."""

from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from core.call import SupervisionLevel
from core.errors import GatewayError
from directory.models import DirectoryConnection
from gateway.management.command_line import administrator_call, in_words
from gateway.pipeline.perform import OwnChanges, all_or_nothing
from keys.models import Role
from keys.permission_catalogue import FOR_ROLES, find_preset


class Command(BaseCommand):
    """Prints nothing but the key's value to standard output, so that it can be piped into a secret store."""

    help = "Create an API key and print its value, which is shown this once. Everything else goes to standard error."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="what the key is called, such as 'HR import'")
        parser.add_argument("--owner", required=True, help="user name of the person it acts as")
        role = parser.add_mutually_exclusive_group(required=True)
        role.add_argument("--role", help="name of the role it is to have")
        role.add_argument(
            "--preset", choices=[preset.name for preset in FOR_ROLES], help="make a new role with these permissions"
        )
        parser.add_argument(
            "--directory", action="append", required=True, help="name of a connection that it manages; repeatable"
        )
        parser.add_argument(
            "--allowed-address",
            action="append",
            default=[],
            metavar="ADDRESS",
            help="address or CIDR block that requests may come from; repeatable (from anywhere)",
        )
        parser.add_argument("--expires", metavar="DATE", help="2031-01-01 or 2031-01-01T12:00:00Z (never)")
        parser.add_argument(
            "--supervision",
            choices=[level.value for level in SupervisionLevel],
            default=SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value,
            help="which changes wait for a person's approval (%(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        directories = [_find_directory(name) for name in options["directory"]]
        try:
            with all_or_nothing(administrator_call("keys create")) as changes:
                body = {
                    "name": options["name"],
                    "owner": options["owner"],
                    "role": _role_id(changes, options),
                    "expiresAt": _moment(options["expires"]),
                    "allowedAddresses": options["allowed_address"],
                    "supervisionLevel": options["supervision"],
                }
                key = changes.perform("api-keys.create", body=body)
                links = [
                    changes.perform("api-keys.create-link", id=key["id"], body={"directory": str(row.pk)})
                    for row in directories
                ]
        except GatewayError as refusal:
            raise CommandError(in_words(refusal)) from None
        for link in links:
            self.stderr.write(f"{link['directoryName']}: Client ID {link['clientId']}", style_func=str)
        self.stdout.write(key["value"])


def _role_id(changes: OwnChanges, options: dict[str, Any]) -> str:
    if (name := options["preset"]) is not None:
        preset = find_preset(name)
        assert preset is not None
        body = {"name": preset.title, "description": preset.text, "permissions": sorted(preset.for_role)}
        return str(changes.perform("roles.create", body=body)["id"])
    role = Role.objects.filter(name=options["role"]).first()
    if role is None:
        raise CommandError(f"There is no role called {options['role']}.")
    return str(role.pk)


def _find_directory(name: str) -> DirectoryConnection:
    row = DirectoryConnection.objects.filter(name=name).first()
    if row is None:
        raise CommandError(f"There is no directory connection called {name}.")
    return row


def _moment(given: str | None) -> str | None:
    """The timestamp for a date: its first moment in UTC. Other texts are left for the operation to check."""
    try:
        return given and f"{date.fromisoformat(given)}T00:00:00Z"
    except ValueError:
        return given
