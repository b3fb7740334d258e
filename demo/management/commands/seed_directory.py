"""`manage.py seed_directory --users N`: fill a trial domain until its company has that many people.

The company is the demonstration's (`lab.company`), with its units and groups; the people have no passwords and are
disabled. Existing objects stay as they are, so another run continues an interrupted one. The domain controller makes
each add a transaction, some 200 per second here, whether one or many are under way.
"""

import time
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from active_directory import (
    Add,
    AlreadyExists,
    Client,
    DistinguishedName,
    Equals,
    LdapError,
    Modification,
    Modify,
    Scope,
)
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from lab.company.organization import build_organization
from lab.company.shapes import Entry, Organization

DISABLED_WITHOUT_PASSWORD = "546"
MEMBERS_IN_ONE_WRITE = 500
PROGRESS_SECONDS = 5.0


class Command(BaseCommand):
    """Writes through the gateway's LDAP client, without permissions and log: only for trials."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare them."""
        parser.add_argument("--users", type=int, required=True, help="how many people the company shall have")

    def handle(self, *args: Any, **options: Any) -> None:
        """Add what is missing: units and groups, people, memberships."""
        if options["users"] < 1:
            raise CommandError("--users must be at least 1")
        connection = DirectoryConnection.objects.filter(enabled=True).order_by("created_at").first()
        if connection is None:
            raise CommandError("There is no directory connection yet")
        client = get_client(connection.id)
        self.stdout.write(f"Filling {client.settings.base_dn} through the connection {connection.name!r}")
        organization = build_organization(users=options["users"], base_dn=client.settings.base_dn)
        try:
            self._fill(client, organization)
        except LdapError as error:
            raise CommandError(f"{error.message}; run it again to continue") from error

    def _fill(self, client: Client, organization: Organization) -> None:
        # One after the other, since a unit must exist before its content.
        for label, object_class in {"units": "organizationalUnit", "groups": "group", "people": "user"}.items():
            entries = [
                entry
                for entry in organization.entries
                if entry.attributes["objectClass"] == object_class
                and (label != "people" or "employeeID" in entry.attributes)
            ]
            self._add(client, entries, label)
        self._join(client, organization)

    def _add(self, client: Client, entries: Sequence[Entry], label: str) -> None:
        started = shown = time.monotonic()
        existing = 0
        adds = (_as_add(entry, client.settings.base_dn) for entry in entries)
        for number, written in enumerate(client.write_many(adds)):
            if isinstance(written.error, AlreadyExists):  # or another object has the account's name
                existing += 1
            elif written.error is not None:
                raise written.error
            if time.monotonic() - shown > PROGRESS_SECONDS:
                shown = time.monotonic()
                self.stdout.write(f"  {number} of {len(entries)} {label}")
        passed = time.monotonic() - started
        self.stdout.write(f"{len(entries) - existing} {label} added in {passed:.1f} s, {existing} existed")

    def _join(self, client: Client, organization: Organization) -> None:
        """Add people to their groups, many in one write: the directory takes 500 as fast as ten."""
        base = client.settings.base_dn
        joined = 0
        # The directory may escape other characters than we do, and people whose names were taken are not there.
        users = client.search(base, Scope.SUBTREE, Equals("objectClass", "user"), ("1.1",))
        people = {_key(entry.dn) for entry in users}
        for group, members in organization.members.items():
            # None for one of the domain's own, which another base does not have.
            for found in client.search(base, Scope.SUBTREE, Equals("sAMAccountName", group), ("member",)):
                absent = people - {_key(name) for name in found.texts("member")}
                names = (f"{member},{base}" for member in dict.fromkeys(members))
                missing = [name.encode() for name in names if _key(name) in absent]
                for start in range(0, len(missing), MEMBERS_IN_ONE_WRITE):
                    values = tuple(missing[start : start + MEMBERS_IN_ONE_WRITE])
                    client.write(Modify(found.dn, (Modification("add", "member", values),)))
                joined += len(missing)
        self.stdout.write(f"{joined} memberships added")


def _key(dn: str) -> str:
    """A distinguished name in comparable form, since the directory may escape other characters than we do."""
    return str(DistinguishedName.parse(dn)).lower()


def _as_add(entry: Entry, base: str) -> Add:
    attributes = dict(entry.attributes)
    if entry.has_password:
        attributes["userAccountControl"] = DISABLED_WITHOUT_PASSWORD
        attributes.pop("manager", None)  # the manager may be created later, or not at all
    encoded = {
        name: [value.encode() for value in ([values] if isinstance(values, str) else values)]
        for name, values in attributes.items()
    }
    return Add(f"{entry.dn},{base}", encoded)
