"""Migrations stand by themselves: what the code becomes later does not change what they did."""

import ast
import re
import sys
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.postgres.functions import RandomUUID
from django.core.management import CommandError, call_command
from django.db import connection as database
from django.db import migrations, models
from django.db.migrations.graph import MigrationGraph
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ModelState, ProjectState

from audit import log
from audit.chain.seals import is_authentic
from audit.migrations._codes import mac_of
from audit.models import new_record_id
from core.secrets.encryption import EncryptedTextField, decrypt, encrypt
from core.text.names import name_key
from directory.migrations._bind_password_seal import encrypted_seal
from directory.models.connections import DESTINATION_FIELDS, DirectoryPermission, bind_seal_of
from gateway.management.migrations import (
    OWN_PACKAGES,
    Autodetector,
    PendingMigration,
    assess_pending,
    create_declared_permissions,
    without_own_code,
)
from keys.migrations import _name_keys
from keys.models import require_legible
from lab.releases import NoHistory, last_release, migrations_of
from tests.audit.calls import make_call

ROOT = Path(__file__).parents[2]
FILES = sorted(path for package in OWN_PACKAGES for path in ROOT.glob(f"{package}/migrations/*.py"))
# The toolkit's functions are the defaults of the tables that it declares.
OTHERS = {"django", "cryptography", "oauth2_provider"}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: name the module"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}.{path.stem}")
def test_no_migration_imports_the_code_of_an_app(path: Path) -> None:
    beside = f"{path.parts[-3]}.migrations._"
    for module in imported(path):
        assert module.partition(".")[0] in sys.stdlib_module_names | OTHERS or module.startswith(beside), module


def test_what_python_alone_knows_is_no_part_of_a_migration() -> None:
    name = without_own_code(models.CharField(max_length=5, validators=[require_legible], default="x"))
    assert name.deconstruct()[3] == {"max_length": 5, "default": "x"}
    assert without_own_code(models.UUIDField(default=uuid4)).deconstruct()[3] == {"default": uuid4}
    assert without_own_code(models.UUIDField(default=new_record_id)).deconstruct()[3] == {}


def test_a_permission_needs_no_migration() -> None:
    def state(*permissions: str) -> ProjectState:
        made, options = ProjectState(), {"permissions": [(name, name) for name in permissions]}
        made.add_model(ModelState("keys", "Door", [("id", models.AutoField(primary_key=True))], options))
        return made

    assert Autodetector(state("open"), state("open", "shut")).changes(MigrationGraph()) == {}


@pytest.mark.django_db
def test_migrate_creates_the_permissions_that_models_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DirectoryPermission._meta, "permissions", (("open_door", "Open doors"),))
    as_migrated = MigrationLoader(database).project_state().apps
    for _ in range(2):
        create_declared_permissions(apps.get_app_config("directory"), as_migrated, verbosity=0, using="default")
    permission = Permission.objects.get(codename="open_door")
    assert (permission.content_type.app_label, permission.name) == ("directory", "Open doors")
    assert Permission.objects.filter(codename="read_object").exists()
    assert type(without_own_code(EncryptedTextField(blank=True))) is models.TextField


# What migrations keep of our code is what the code goes on from.


@pytest.mark.django_db
def test_the_code_that_a_migration_gave_a_record_is_authentic() -> None:
    record = log.record_intent(make_call(), log.Intent(operation="users.update", evidence={"mail": 3}))
    record.mac = mac_of({field.attname: getattr(record, field.attname) for field in record._meta.concrete_fields})
    assert is_authentic(record)
    record.reason = "something else"
    assert not is_authentic(record)


def test_the_seal_that_a_migration_gave_a_connection_fits() -> None:
    class Row:
        urls = ["ldaps://dc2/", "LDAPS://dc1"]
        start_tls, ca_certificate, bind_dn = False, " pem\ntext ", "CN=gateway "
        bind_password = encrypt("secret")

    destination = {name: getattr(Row, name) for name in DESTINATION_FIELDS}
    assert decrypt(encrypted_seal(Row)) == bind_seal_of(**destination, password="secret")


@pytest.mark.parametrize("name", ["Grace.Hopper", "ｇrace", "ѕсоре", "ΟΧ", "山田taro"])
def test_the_key_that_a_migration_gave_a_name_is_its_key(name: str) -> None:
    assert _name_keys.name_key(name) == name_key(name)


# During an upgrade the processes of the release before go on, on the tables of this one.


def test_no_migration_since_the_last_release_stops_its_processes() -> None:
    try:
        before = migrations_of(last_release())
    except NoHistory as error:
        pytest.skip(f"the release before cannot be had: {error}")
    loader = MigrationLoader(None)
    ours = {(app, name) for app, name in loader.disk_migrations if app in OWN_PACKAGES}
    new = {(app, name) for app, name in ours if f"{app}.{name}" not in before}
    assert len(ours - new) == len(before), "what was released stays as it is"
    assert [
        each for judged in assess_pending(loader, loader.disk_migrations.keys() - new) for each in judged.breaks
    ] == []


NEW, OLD = models.CharField(max_length=9), models.CharField(max_length=5)
IS_UNIQUE = models.UniqueConstraint(fields=["name"], name="once")
IS_SHORT = models.CheckConstraint(condition=models.Q(name__lt="m"), name="first_half")
NOTHING = migrations.RunPython.noop


@pytest.mark.parametrize(
    ("operations", "breaks"),
    [
        ([migrations.AddField("thing", "new", models.CharField(default=""))], ["insert rows without it"]),
        ([migrations.AddField("thing", "new", models.CharField(default="", db_default=""))], []),
        ([migrations.AddField("thing", "new", models.CharField(null=True))], []),
        ([migrations.CreateModel("new", []), migrations.AddField("new", "new", models.IntegerField())], []),
        ([migrations.RemoveField("thing", "name")], ["they use it"]),
        ([migrations.RenameField("thing", "name", "label")], ["its old name"]),
        ([migrations.RenameModel("thing", "item")], ["its old name"]),
        ([migrations.AlterModelTable("thing", "app_thing"), migrations.RenameModel("thing", "item")], []),
        ([migrations.AlterModelTable("thing", "things")], ["its old name"]),
        ([migrations.DeleteModel("thing")], ["they use the table"]),
        ([migrations.AlterField("thing", "name", models.CharField(max_length=9, help_text="new"))], []),
        ([migrations.AlterField("thing", "name", models.CharField(max_length=5, choices=[("a", "A")]))], []),
        ([migrations.AlterField("thing", "name", models.CharField(max_length=4))], ["may not fit"]),
        ([migrations.AlterField("thing", "name", models.CharField(max_length=5, unique=True))], ["a value again"]),
        ([migrations.AlterField("thing", "note", models.CharField(max_length=5))], ["may write none"]),
        ([migrations.AddConstraint("thing", IS_UNIQUE)], ["what it refuses"]),
        ([migrations.AddConstraint("thing", IS_SHORT)], ["what it refuses"]),
        ([migrations.AddField("thing", "new", models.CharField(null=True)),
          migrations.AddConstraint("thing", models.UniqueConstraint(fields=["new"], name="new_once"))], []),
        ([migrations.RunPython(NOTHING)], ["does not say"]),
        ([migrations.RunSQL("SELECT 1")], ["does not say"]),
        ([migrations.AlterUniqueTogether("thing", {("name", "note")})], ["does not say"]),
        # A column is dropped one release after its use.
        ([migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("thing", "name")])], []),
    ],
)  # fmt: skip
def test_what_stops_processes_of_the_release_before(operations: list, breaks: list[str]) -> None:
    found = judge(operations)
    assert [any(text in each for each in found.breaks) for text in breaks] == [True] * len(found.breaks)
    assert len(found.breaks) == len(breaks)


def test_what_only_people_can_tell_a_migration_says() -> None:
    undecided = [migrations.RunPython(NOTHING), migrations.AddConstraint("thing", IS_UNIQUE)]
    assert len(judge(undecided).breaks) == 2
    assert judge(undecided, rolling="Nothing is done.").breaks == []
    certain = [migrations.RemoveField("thing", "name")]
    assert judge(certain, rolling="It is not so bad.").breaks != []


def test_what_holds_others_up() -> None:
    computed = models.UUIDField(db_default=RandomUUID())
    slow = [
        step.slow
        for step in judge(
            [
                migrations.AddField("thing", "new", models.CharField(null=True)),
                migrations.AlterField("thing", "name", NEW),
                migrations.AddField("thing", "computed", computed),
                migrations.AddIndex("thing", models.Index(fields=["name"], name="by_name")),
                migrations.AddConstraint("thing", IS_SHORT),
            ]
        ).steps
    ]
    assert slow[:2] == [None, None]
    for found, text in zip(
        slow[2:], ("writes the whole table", "builds an index", "reads the whole table"), strict=True
    ):
        assert text in found


def judge(operations: list, *, rolling: str = "") -> PendingMigration:
    """Of a migration that follows the one that made a thing with a name and a note."""
    fields: list = [("name", OLD), ("note", models.CharField(max_length=5, null=True))]
    loader = MigrationLoader(None, load=False)
    loader.graph, loader.unmigrated_apps = MigrationGraph(), set()
    for name, members in (
        ("0001", {"operations": [migrations.CreateModel("thing", fields)]}),
        ("0002", {"operations": operations, "rolling": rolling}),
    ):
        loader.graph.add_node(("app", name), type("Migration", (migrations.Migration,), members)(name, "app"))
    loader.graph.add_dependency(None, ("app", "0002"), ("app", "0001"))
    (judged,) = assess_pending(loader, {("app", "0001")})
    return judged


@pytest.mark.django_db
def test_the_command_tells_what_an_upgrade_will_do() -> None:
    told = StringIO()
    call_command("check", upgrade=True, stdout=told)
    assert "There is nothing to migrate." in told.getvalue()
    recorder = MigrationRecorder(database)
    recorder.record_unapplied("keys", "0009_passwords_to_requesters")
    recorder.record_applied("keys", "9999_of_the_next_release")
    call_command("check", upgrade=True, stdout=told)
    lines = told.getvalue().splitlines()
    assert "The tables are those of a later release: keys.9999_of_the_next_release." in lines
    assert "keys.0009_passwords_to_requesters" in lines
    assert any(re.match(r"  keys_apikey.*: adds the column passwords_to_requester$", line) for line in lines)
    assert lines[-1].startswith("Web processes and workers of the release before may go on")
    recorder.record_unapplied("keys", "0007_access_state")
    with pytest.raises(CommandError, match="Stop web processes and workers"):
        call_command("check", upgrade=True, stdout=told)
    assert "The release before cannot go on: its migration does not say" in told.getvalue()
