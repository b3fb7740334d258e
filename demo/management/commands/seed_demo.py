"""`manage.py seed_demo`: the demonstration's own accounts, directory connection, role and API key, made or found again.

It reads the credentials of earlier runs from standard input, as JSON, and prints them with the new ones. `demo.run`
makes the domain and its organisation.
"""

import json
import secrets
import sys
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

CONNECTION = ROLE_AND_KEY = "Demonstration"
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
            told = self._seed(known)
            for row in _rows():
                administration.note_new_row(row)
        self.stdout.write(json.dumps(told))

    def _seed(self, known: dict[str, Any]) -> dict[str, Any]:
        administrator = _person("admin", "Demo Administrator", known.get("administrator"), superuser=True)
        approver = _person("approver", "Demo Approver", known.get("approver"), superuser=False)
        Person.objects.get(username="approver").user_permissions.add(*find_permissions(FOR_THE_APPROVER).values())
        connection = _connection(known["directory"])
        key = _api_key(known.get("apiKey"), connection)
        return {"administrator": administrator, "approver": approver, "apiKey": key}


def _rows() -> list[Model]:
    """The existing rows of the demonstration."""
    return [
        *Person.objects.filter(username__in=("admin", "approver")),
        *DirectoryConnection.objects.filter(name=CONNECTION),
        *Role.objects.filter(name=ROLE_AND_KEY),
        *ApiKey.objects.filter(name=ROLE_AND_KEY),
    ]


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
    connection, created = DirectoryConnection.objects.get_or_create(name=CONNECTION, defaults=wanted)
    if connection.rotated_at is not None:
        del wanted["bind_password"]  # the gateway may have rotated it
    outdated = [name for name, value in wanted.items() if getattr(connection, name) != value]
    if outdated and not created:
        for name in outdated:
            setattr(connection, name, wanted[name])
        connection.bind_password_given = True  # the demonstration has made the account, too
        connection.save(update_fields=outdated)
    return connection


def _api_key(known: dict[str, str] | None, connection: DirectoryConnection) -> dict[str, str]:
    """The key of earlier runs if it still works, else a new one: only the caller stores its value."""
    if known and (secret := parse(known["value"], Prefix.API_KEY)):
        key = ApiKey.objects.filter(lookup_id=secret.lookup_id, digest=secret.digest).first()
        if key is not None and key.state == "active" and key.links.filter(client_id=known["clientId"]).exists():
            return known
    owner = Person.objects.get(username="admin")
    role, created = Role.objects.get_or_create(
        name=ROLE_AND_KEY, defaults={"description": "All that an integration may be allowed, for trying things out."}
    )
    if created:
        role.permissions.set(find_permissions(set(GRANTABLE - NOT_FOR_THE_KEY)).values())
    value, client_id = add_key(ROLE_AND_KEY, owner, role, connection, created_by=owner)
    return {"name": ROLE_AND_KEY, "value": value, "clientId": client_id}
