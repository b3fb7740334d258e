"""`gateway keys create`: what it prints works as a key at once, and the log has a record of it."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from audit.models import OperationRecord
from directory.models import DirectoryConnection
from keys.models import ApiKey, Role
from keys.permission_catalogue import FOR_ROLES
from operations.management.commands.keys import Command as Keys
from tests.support.cast import make_person, permissions, send

pytestmark = [pytest.mark.django_db]

READ = "directory.read_object"


def create(*options: str) -> tuple[str, str]:
    """What the command prints on standard output, and on standard error."""
    out, told = StringIO(), StringIO()
    call_command(Keys.commands["create"], *options, stdout=out, stderr=told)
    return out.getvalue(), told.getvalue()


@pytest.fixture
def given(connection: DirectoryConnection) -> list[str]:
    """The options that every key needs, but for its role."""
    make_person("grace", superuser=True)
    return ["--name=HR import", "--owner=grace", f"--directory={connection.name}"]


def test_it_works(given: list[str], connection: DirectoryConnection) -> None:
    role = Role.objects.create(name="Readers")
    role.permissions.set(permissions([READ]))
    restricted = ["--allowed-address=127.0.0.0/8", "--expires=2100-01-01", "--supervision=ask_every_change"]
    out, told = create(*given, "--role=Readers", *restricted)
    value = out.removesuffix("\n")
    key = ApiKey.objects.get()
    client_id = str(key.links.get().client_id)
    assert told == f"{connection.name}: Client ID {client_id}\n"
    me = send(Client(), "GET", "/api/me", X_API_Key=value, X_Client_Id=client_id)
    assert (me.status, me.body["permissions"]) == (200, [READ])
    assert me.body["directory"] == {"name": connection.name, "clientId": client_id}
    assert (key.name, key.owner.username, key.created_by) == ("HR import", "grace", None)
    assert (key.allowed_addresses, key.supervision_level) == (["127.0.0.0/8"], "ask_every_change")
    assert key.expires_at is not None
    assert key.expires_at.isoformat() == "2100-01-01T00:00:00+00:00"
    for name in ("api-keys.create", "api-keys.create-link"):
        record = OperationRecord.objects.get(operation=name)
        assert (record.owner, record.outcome, record.target_id) == ("(command line)", "succeeded", key.id)
        assert record.raised_access
        assert value not in str(record.changes)


def test_a_role_by_preset(given: list[str]) -> None:
    create(*given, "--preset=help-desk")
    role = ApiKey.objects.get().role
    assert role.name == "Help desk"
    held = {f"{item.content_type.app_label}.{item.codename}" for item in role.permissions.all()}
    assert held == FOR_ROLES[0].for_role
    assert OperationRecord.objects.get(operation="roles.create").target_id == role.id
    with pytest.raises(CommandError, match="a role called Help desk already"):
        create(*given, "--preset=help-desk")


def test_a_refusal_leaves_nothing_but_its_record(given: list[str]) -> None:
    for option, message in (
        ("--owner=nobody", "#/owner: there is no such person"),
        ("--expires=2001-01-01", "#/expiresAt: must be in the future"),
        ("--expires=soon", "#/expiresAt: must be an RFC 3339 timestamp"),
        ("--allowed-address=everywhere", "#/allowedAddresses/0"),
        ("--name= ", "#/name"),
    ):
        out = StringIO()
        with pytest.raises(CommandError, match=message):
            call_command(Keys.commands["create"], *given, option, "--preset=auditor", stdout=out)
        assert out.getvalue() == ""
        assert not ApiKey.objects.exists()
        assert not Role.objects.exists(), "the role goes with the key"
    refused = OperationRecord.objects.filter(operation="api-keys.create", outcome="failed")
    assert {record.code for record in refused} == {"Request.Invalid"}


def test_what_is_not_there_is_named(given: list[str]) -> None:
    with pytest.raises(CommandError, match="no role called Nobody's"):
        create(*given, "--role=Nobody's")
    with pytest.raises(CommandError, match="no directory connection called Elsewhere"):
        create(*given, "--preset=auditor", "--directory=Elsewhere")
    assert not Role.objects.exists()


def test_a_key_linked_twice_is_none(given: list[str]) -> None:
    with pytest.raises(CommandError, match="linked to this directory already"):
        create(*given, given[-1], "--preset=auditor")
    assert not ApiKey.objects.exists()
