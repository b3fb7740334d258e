"""`gateway apply`: the documentation's example against a real domain, again, changed, and refused."""

import re
import stat
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from audit.models import OperationRecord, WebhookEndpoint
from directory.models import DirectoryConnection
from keys.models import ApiKey, Role
from keys.permission_catalogue import find_preset
from lab.commands import PROJECT
from lab.directory import Directory
from lab.domain import Domain
from tests.support.cast import make_person, send

pytestmark = [pytest.mark.django_db]

STAFF = "OU=Staff,DC=corp,DC=example,DC=com"


@pytest.fixture
def example(
    domain: Domain, directory: Directory, organizational_unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The example of the documentation, with the domain of the tests in place of its own."""
    make_person("grace", superuser=True)
    directory.add_group("First line", parent=organizational_unit)
    documented = (PROJECT / "docs" / "configuration.md").read_text("utf-8")
    found = re.search(r"```toml\n(\[directories.*?)```", documented, re.DOTALL)
    assert found
    (tmp_path / "password").write_text(f"{domain.bind_password}\n")
    (tmp_path / "ca.pem").write_text(domain.ca_pem)
    text = found[1]
    for theirs, ours in (
        ('["ldaps://dc1.corp.example.com", "ldaps://dc2.corp.example.com"]', f'["{domain.url}"]'),
        (STAFF, organizational_unit),
        ("DC=corp,DC=example,DC=com", domain.base_dn),
        ("svc-gateway@corp.example.com", domain.bind_dn),
        ("/etc/gateway/secrets/corp-bind-password", str(tmp_path / "password")),
        ("/etc/gateway/tls/corp-ca.pem", str(tmp_path / "ca.pem")),
        ('"192.0.2.10"', '"127.0.0.1"'),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    file = tmp_path / "objects.toml"
    file.write_text(text)
    monkeypatch.setenv("CORP_BIND_PASSWORD", domain.bind_password)
    return file


def apply(file: Path, *options: str) -> list[str]:
    """The lines that the command prints."""
    out = StringIO()
    call_command("apply", str(file), *options, stdout=out)
    return out.getvalue().splitlines()


def made(file: Path) -> Path:
    """Where the secrets are once the file is applied."""
    secrets = file.with_name("secrets.toml")
    apply(file, f"--secrets-file={secrets}")
    return secrets


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def count_of_all() -> list[int]:
    tables = (DirectoryConnection, Role, Group, ApiKey, WebhookEndpoint)
    return [model._default_manager.count() for model in tables]


def changes() -> list[str]:
    """The changes on record, the oldest first."""
    records = OperationRecord.objects.filter(owner="(command line)", outcome="succeeded")
    return list(records.order_by("at", "id").values_list("operation", flat=True))


def test_the_example_works(example: Path, organizational_unit: str) -> None:
    secrets = made(example)
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    values = tomllib.loads(secrets.read_text())
    client_id = values["keys"]["HR import"]["clientIds"]["Corp"]
    me = send(Client(), "GET", "/api/me", X_API_Key=values["keys"]["HR import"]["value"], X_Client_Id=client_id)
    preset = find_preset("help-desk")
    assert preset is not None
    assert set(me.body["permissions"]) == preset.for_role | {"directory.update_user"}
    role = Role.objects.get(name="Staff help desk")
    assert [scope["distinguishedName"] for scope in role.scopes] == [organizational_unit]
    group = Group.objects.get(name="First line")
    assert [item.distinguished_name for item in group.directory_groups.all()] == [
        f"CN=First line,{organizational_unit}"
    ]
    assert values["webhooks"]["SIEM"]["secret"] == WebhookEndpoint.objects.get().secret
    assert changes() == [
        *("directories.create", "roles.create", "permission-groups.create"),
        *("api-keys.create", "api-keys.create-link", "webhook-endpoints.create"),
    ]


def test_a_second_time_nothing_changes(example: Path) -> None:
    made(example)
    before = changes()
    connection, role = DirectoryConnection.objects.get(), Role.objects.get()
    assert apply(example) == ["Everything is as the file says."]
    assert changes() == before
    assert DirectoryConnection.objects.get().revision == connection.revision
    assert Role.objects.get().changed_at == role.changed_at


def test_a_dry_run_tells_and_does_nothing(example: Path, domain: Domain) -> None:
    told = apply(example, "--dry-run")
    assert [line for line in told if not line.startswith(" ")] == [
        *("Add directory connection Corp", "Add role Staff help desk", "Add group First line"),
        *("Add API key HR import", "Add webhook SIEM", "This was a dry run: nothing was changed."),
    ]
    assert "  bindPassword: <secret>" in told
    assert domain.bind_password not in "\n".join(told)
    assert count_of_all() == [0] * 5
    assert changes() == []


def test_what_differs_is_changed(example: Path) -> None:
    made(example)
    edit(example, 'permissions = ["directory.update_user"]       # besides', "permissions = []       # besides")
    edit(example, 'allowedAddresses = ["127.0.0.1"]', 'allowedAddresses = ["127.0.0.0/8"]')
    edit(example, 'directories = ["Corp"]', "directories = []")
    edit(example, '"changes", "change-requests"', '"changes"')
    told = apply(example, "--dry-run")
    assert "  allowedAddresses: 127.0.0.1 → 127.0.0.0/8" in told
    assert "  events: changes, change-requests → changes" in told
    assert [line for line in told if not line.startswith(" ")] == [
        *("Change role Staff help desk", "Change API key HR import", "Change webhook SIEM"),
        "This was a dry run: nothing was changed.",
    ]
    assert apply(example) == told[:-1], "the dry run is what is done"
    assert changes()[6:] == ["roles.update", "api-keys.update", "api-keys.delete-link", "webhook-endpoints.update"]
    assert not ApiKey.objects.get().links.exists()


def test_what_is_not_in_the_file_is_left_alone(example: Path) -> None:
    made(example)
    empty = example.with_name("empty.toml")
    empty.write_text("")
    assert apply(empty) == [
        'Not in the file, left alone: directories."Corp"',
        'Not in the file, left alone: roles."Staff help desk"',
        'Not in the file, left alone: groups."First line"',
        'Not in the file, left alone: webhooks."SIEM"',
        'Not in the file, left alone: keys."HR import" of grace',
        "Everything is as the file says.",
    ]
    assert count_of_all() == [1] * 5


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[roles.", "[rolls.", "#/rolls: is not known here"),
        ("scopes =", "scops =", "#/roles/Staff help desk/scops: is not known here"),
        ("[directories.Corp]", "[directories.Corp", "at line 1"),
        ("[webhooks.SIEM]", '[webhooks.SIEM]\nname = "Other"', "webhooks/SIEM/name: is not known here"),
        ("{ file = ", "{ text = ", "bindPassword/text: is not known here"),
        ("bindPassword = {", 'bindPassword = "in the file" # {', "#/directories/Corp/bindPassword: must say where"),
        ('preset = "help-desk"', 'preset = "boss"', "#/roles/Staff help desk/preset: Input should be"),
        ('url = "https', 'url = 1 # "https', "#/webhooks/SIEM/url: Input should be a valid string"),
        ('"ask_destructive_security"', '"never"', "#/keys/HR import/supervisionLevel"),
        # refused by the operations, when everything before is done
        ('owner = "grace"', 'owner = "nobody"', 'keys."HR import": #/owner: there is no such person'),
        ('role = "Staff help desk"', 'role = "Others"', 'keys."HR import": #/role: there is no role called Others'),
        ('directories = ["Corp"]', 'directories = ["Lost"]', "no directory connection called Lost"),
        ("CN=First line,", "CN=Nobody,", 'groups."First line": #/directoryGroups/0/group'),
        ('["directory.update_user"]', '["keys.add_role"]', "no permission to grant here"),
        ('url = "https', 'url = "ftp', 'webhooks."SIEM": #/url'),
    ],
)
def test_all_or_nothing(example: Path, before: str, after: str, message: str) -> None:
    edit(example, before, after)
    secrets = example.with_name("secrets.toml")
    with pytest.raises(CommandError, match=re.escape(message)):
        apply(example, f"--secrets-file={secrets}")
    assert count_of_all() == [0] * 5
    assert changes() == []
    assert not secrets.exists()


def test_a_refusal_is_on_record(example: Path) -> None:
    edit(example, 'owner = "grace"', 'owner = "nobody"')
    with pytest.raises(CommandError):
        apply(example, "--dry-run")
    assert not OperationRecord.objects.exists(), "a dry run asked for nothing"
    with pytest.raises(CommandError):
        made(example)
    refused = OperationRecord.objects.get()
    assert (refused.operation, refused.outcome, refused.code) == ("api-keys.create", "failed", "Request.Invalid")


def test_secrets_have_somewhere_to_go(example: Path) -> None:
    with pytest.raises(CommandError, match="--secrets-file"):
        apply(example)
    taken = example.with_name("taken")
    taken.write_text("mine")
    with pytest.raises(CommandError, match="File exists"):
        apply(example, f"--secrets-file={taken}")
    assert taken.read_text() == "mine"
    assert count_of_all() == [0] * 5


def test_the_bind_password(example: Path, domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    password = example.with_name("password")
    password.unlink()
    with pytest.raises(CommandError, match=r'directories\."Corp": #/bindPassword/file: .* No such file'):
        made(example)
    edit(example, f'{{ file = "{password}" }}', '{ variable = "CORP_BIND_PASSWORD" }')
    made(example)
    monkeypatch.setenv("CORP_BIND_PASSWORD", "Another-Password-1")
    assert apply(example) == ["Change directory connection Corp", "  bindPassword: <secret> → <secret>"]
    edit(example, domain.bind_dn, "CN=Other,DC=corp")
    apply(example)
    row = DirectoryConnection.objects.get()
    assert (row.bind_dn, row.bind_password, row.is_bind_password_sealed) == (
        "CN=Other,DC=corp",
        "Another-Password-1",
        True,
    )
    DirectoryConnection.objects.update(rotated_at=timezone.now())
    monkeypatch.setenv("CORP_BIND_PASSWORD", "Outdated-Password-1")
    assert apply(example) == ["Everything is as the file says."]
    edit(example, "CN=Other,DC=corp", domain.bind_dn)
    with pytest.raises(CommandError, match="Give the password anew"):
        apply(example)
    monkeypatch.delenv("CORP_BIND_PASSWORD")
    DirectoryConnection.objects.update(rotated_at=None)
    with pytest.raises(CommandError, match="CORP_BIND_PASSWORD is not set"):
        apply(example)


def test_a_revoked_key_is_not_made_anew(example: Path) -> None:
    made(example)
    ApiKey.objects.update(revoked_at=timezone.now())
    with pytest.raises(CommandError, match=r'keys\."HR import": The key was revoked'):
        apply(example)
