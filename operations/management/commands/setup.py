"""`gateway setup`: makes the first administrator and connects the first directory, by questions or options.

It does on the command line what the console's set-up wizard does.
"""

import getpass
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from pydantic import ValidationError

from audit.model_changes.recording import call_of_command, recorded
from core.errors import GatewayError
from directory.models import DirectoryConnection
from directory.queries.connection_test import ConnectionReport, try_connection
from directory.security.grants import account_name, dsacls_lines
from directory.security.needed_rights import NEEDED_RIGHTS
from keys import first_administrator
from operations.directory.directories import CreateDirectory, new_connection


class Command(BaseCommand):
    """Leaves what exists as it is, so that the command can be run again. Exits 1 if something is missing."""

    help = "Make the first administrator and connect the first directory. Asks for what no option gives."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--no-input", action="store_true", help="ask nothing; what is missing is an error")
        person = parser.add_argument_group("the first administrator")
        person.add_argument("--username")
        person.add_argument("--display-name")
        person.add_argument("--email", help="where notices go (none)")
        person.add_argument("--password-file", type=Path, help="a file with the password; - for standard input")
        place = parser.add_argument_group("the first directory")
        place.add_argument("--no-directory", action="store_true", help="connect none now")
        place.add_argument("--directory-name", help="what it is called here, Corp for example")
        place.add_argument("--url", action="append", help="ldaps://dc1.corp.example.com; again for each further one")
        place.add_argument("--base-dn", help="DC=corp,DC=example,DC=com")
        place.add_argument("--bind-dn", help="the gateway's own account there: a distinguished name, or name@domain")
        place.add_argument("--bind-password-file", type=Path, help="a file with its password; - for standard input")
        place.add_argument("--ca-file", type=Path, help="the authority of the servers' certificates (the system's)")
        place.add_argument("--start-tls", action="store_true", help="ldap:// URLs, encrypted before anything is said")
        place.add_argument("--anyway", action="store_true", help="save the connection even if its test fails")

    def handle(self, *args: Any, **options: Any) -> None:
        self._options = options
        self._may_ask = not options["no_input"] and sys.stdin.isatty()
        try:
            self._make_administrator()
            if not options["no_directory"]:
                self._connect_directory()
        except GatewayError as refusal:
            raise CommandError("; ".join(error.detail for error in refusal.errors) or refusal.detail) from None

    def _make_administrator(self) -> None:
        if not first_administrator.is_open():
            self.stdout.write("Administrator: there is one already.")
            return
        username = self._option("username", "User name of the first administrator")
        person = first_administrator.make_first_administrator(
            call_of_command("setup"),
            username=username,
            display_name=self._option("display_name", "Their name", default=username),
            email=self._options["email"] or "",
            password=self._secret("password_file", "Password", confirm=True),
        )
        self.stdout.write(f"Administrator: {person.username} can sign in at /console/.")

    def _connect_directory(self) -> None:
        if (found := DirectoryConnection.objects.order_by("created_at").first()) is not None:
            self.stdout.write(f"Directory: {found.name} is connected already.")
            return
        asked = self._option
        given = {
            "name": asked("directory_name", "What the directory is called here", default="Corp"),
            "urls": self._options["url"] or asked("urls", "Its servers, ldaps://… separated by spaces").split(),
            "baseDn": asked("base_dn", "The part of it that is managed (DC=corp,DC=example,DC=com)"),
            "bindDn": asked("bind_dn", "The gateway's own account there"),
            "bindPassword": self._secret("bind_password_file", "Its password"),
            "caCertificate": self._certificate(),
            "startTls": self._options["start_tls"],
        }
        try:
            row = new_connection(CreateDirectory.model_validate(given))
        except ValidationError as refusal:
            first = refusal.errors(include_input=False, include_url=False)[0]
            raise CommandError(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
        report = try_connection(call_of_command("setup"), row)
        self._tell(report)
        if not report["ok"] and not self._options["anyway"]:
            raise CommandError("The directory was not connected; nothing of it was saved. --anyway saves it as it is.")
        with recorded(call_of_command("setup"), operation="directories.create") as administration:
            row.save()
            administration.note_new_row(row)
        self.stdout.write(f"Directory: {row.name} is connected; its Client ID is {row.client_id}.")
        self._tell_rights(row)

    def _tell(self, report: ConnectionReport) -> None:
        for server in report["servers"]:
            if server["ok"]:
                self.stdout.write(f"{server['url']}: works ({server['server']}, {server['tls']})")
            else:
                self.stdout.write(f"{server['url']}: {server['problem']}. {server['advice'] or ''}".rstrip())
        for warning in report["warnings"]:
            self.stdout.write(f"Note: {warning}")

    def _tell_rights(self, row: DirectoryConnection) -> None:
        """Print the rights that the account needs, task by task, for administrators to choose from."""
        account = account_name(row.bind_dn)
        self.stdout.write(
            f"\nWhat {account} needs in the directory, task by task. It need not and should not be an administrator; "
            "reading needs nothing. Once there are roles, the connection's page in the console compares.\n"
        )
        for needed in NEEDED_RIGHTS:
            self.stdout.write(f"# {needed.task}")
            for line in dsacls_lines(needed.rights, account=account, base_dn=row.base_dn):
                self.stdout.write(line)

    def _option(self, name: str, question: str, *, default: str = "") -> str:
        """The value of an option, or the answer of the person at the terminal."""
        if given := self._options.get(name):
            return str(given)
        hint = f" [{default}]" if default else ""
        answer = (input(f"{question}{hint}: ").strip() if self._may_ask else "") or default
        if not answer:
            raise CommandError(f"--{'url' if name == 'urls' else name.replace('_', '-')} is missing")
        return answer

    def _secret(self, option: str, question: str, *, confirm: bool = False) -> str:
        """A secret from a file or the terminal. Never an option, since other accounts see those in the process list."""
        if (file := self._options[option]) is not None:
            return self._read(lambda: sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8"), file)
        if not self._may_ask:
            raise CommandError(f"--{option.replace('_', '-')} is missing")
        answer = getpass.getpass(f"{question}: ")
        if confirm and getpass.getpass(f"{question} again: ") != answer:
            raise CommandError("The passwords are not the same")
        return answer

    def _certificate(self) -> str | None:
        file = self._options["ca_file"]
        return self._read(lambda: file.read_text("ascii"), file) if file else None

    def _read(self, read: Callable[[], str], file: Path) -> str:
        try:
            text = read()
        except (OSError, ValueError) as error:
            raise CommandError(f"{file}: {getattr(error, 'strerror', None) or 'is no text'}") from None
        return text.strip("\r\n")
