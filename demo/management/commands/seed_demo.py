"""`manage.py seed_demo`: the demonstration's own accounts, directory connection, role and API key, made or found again.

It reads the credentials of earlier runs from standard input, as JSON, and prints them with the new ones. `demo.run`
makes the domain and its organisation.
"""

import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.db.models import Model

from audit.model_changes.recording import call_of_command, recorded
from directory.models import DirectoryConnection
from keys.credential_values import Prefix, parse
from keys.models import ApiKey, Person, Role
from keys.permission_catalogue import GRANTABLE, find_permissions
from lab.accounts.rows import add_key

NAME = "Demonstration"
"""The name of the connection, the role and the key."""
PEOPLE = {"administrator": "admin", "approver": "approver"}
# An integration must not change administrators, revert others' changes, or approve its own.
NOT_FOR_THE_KEY = {"directory.manage_protected", "audit.revert_change", "approvals.decide_change"}
FOR_THE_APPROVER = {
    "approvals.decide_change",
    "approvals.view_changerequest",
    "audit.read_log",
    "audit.view_operationrecord",
    "directory.read_object",
}


class Command(BaseCommand):
    """Running it again changes nothing that exists, unless a secret of earlier runs is unknown by now."""

    help = __doc__ or ""

    def handle(self, *args: Any, **options: Any) -> None:
        """Create what is missing and print everything."""
        known = json.load(sys.stdin)
        with recorded(call_of_command("seed_demo")) as administration:
            for row in _rows():
                administration.watch_row(row)
            administrator, approver = (
                _person(username, f"Demo {name.capitalize()}", known.get(name), superuser=name == "administrator")
                for name, username in PEOPLE.items()
            )
            Person.objects.get(username="approver").user_permissions.add(*find_permissions(FOR_THE_APPROVER).values())
            key = _api_key(known.get("apiKey"), _connection(known["directory"]))
            for row in _rows():
                administration.note_new_row(row)
        self.stdout.write(json.dumps({"administrator": administrator, "approver": approver, "apiKey": key}))


def _rows() -> Iterator[Model]:
    """The existing rows of the demonstration."""
    yield from Person.objects.filter(username__in=PEOPLE.values())
    for model in (DirectoryConnection, Role, ApiKey):
        yield from model.objects.filter(name=NAME)


def _person(username: str, display_name: str, known: dict[str, str] | None, *, superuser: bool) -> dict[str, str]:
    """Make or find a local account; a password that was changed since is left alone."""
    password = known["password"] if known else secrets.token_urlsafe(12)
    person, created = Person.objects.get_or_create(
        username=username, defaults={"display_name": display_name, "is_staff": True, "is_superuser": superuser}
    )
    if created or not known:
        person.set_password(password)
        person.save(update_fields=["password"])
    return {"username": username, "password": password}


def _connection(directory: dict[str, str]) -> DirectoryConnection:
    wanted = {
        "urls": [directory["url"]],
        "base_dn": directory["baseDn"],
        "bind_dn": directory["bindDn"],
        "bind_password": directory["bindPassword"],
        "ca_certificate": Path(directory["caFile"]).read_text(),
    }
    connection, _ = DirectoryConnection.objects.get_or_create(name=NAME, defaults=wanted)
    if connection.rotated_at is not None:
        del wanted["bind_password"]  # the gateway may have rotated it
    outdated = [name for name, value in wanted.items() if getattr(connection, name) != value]
    if outdated:
        for name in outdated:
            setattr(connection, name, wanted[name])
        connection.bind_password_given = True  # the demonstration has made the account, too
        connection.save(update_fields=outdated)
    return connection


def _api_key(known: dict[str, str] | None, connection: DirectoryConnection) -> dict[str, str]:
    """The key of earlier runs if it still works, else a new one: only the caller stores its value."""
    if known and (secret := parse(known["value"], Prefix.API_KEY)):
        found = ApiKey.objects.filter(
            lookup_id=secret.lookup_id, digest=secret.digest, links__client_id=known["clientId"]
        )
        if any(key.state == "active" for key in found):
            return known
    owner = Person.objects.get(username="admin")
    role, created = Role.objects.get_or_create(
        name=NAME, defaults={"description": "All that an integration may be allowed, for trying things out."}
    )
    if created:
        role.permissions.set(find_permissions(set(GRANTABLE - NOT_FOR_THE_KEY)).values())
    value, client_id = add_key(NAME, owner, role, connection, created_by=owner)
    return {"name": NAME, "value": value, "clientId": client_id}
