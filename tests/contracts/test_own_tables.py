"""Every change of the gateway's own tables is a record with its values, whichever way in: no record, no change."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.core.management import call_command
from django.db import transaction
from django.test import RequestFactory

from audit.model_changes.descriptions import find_audited_model
from audit.model_changes.recorded_admin import ReadOnlyAdmin, RecordedAdmin
from audit.models import OperationRecord
from console.admin import OperationAdmin
from core.operation import Effect, operations
from directory.models import DirectoryConnection
from keys.models import Role
from lab.domain import Domain
from tests.contracts.own_tables import (
    CHANGES_NOTHING,
    IN_ADMIN,
    NEED_A_DIRECTORY,
    ON_REST,
    Change,
    World,
    contents,
)
from tests.contracts.test_unwritable_log import unwritable_log
from tests.support.cast import Console, make_person

pytestmark = pytest.mark.django_db

OF_DJANGO = {"add", "changelist", "change", "delete", "history", "autocomplete"}


@pytest.fixture
def world(db: None) -> World:
    connection = DirectoryConnection.objects.create(
        name="Corp of the world",
        urls=["ldaps://127.0.0.1:1"],
        base_dn="DC=corp",
        bind_dn="gateway@corp",
        bind_password="secret",
    )
    return World(Console(make_person(superuser=True)), connection)


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.redis.broker.current_app.send_task", lambda *_, **__: None)


def views_and_actions() -> set[tuple[str, str]]:
    """What a superuser may open or choose in the back office that could change something."""
    request = RequestFactory().get("/admin/")
    request.user = make_person(superuser=True)
    found = set()
    for model, model_admin in admin.site._registry.items():
        label = model._meta.label_lower
        allowed = {
            "add": model_admin.has_add_permission(request),
            "change": model_admin.has_change_permission(request),
            "delete": model_admin.has_delete_permission(request),
        }
        found |= {(label, name) for name, is_allowed in allowed.items() if is_allowed}
        found |= {(label, name) for name in model_admin.get_actions(request)}
        prefix = f"{model._meta.app_label}_{model._meta.model_name}_"
        names = {pattern.name for pattern in model_admin.get_urls() if getattr(pattern, "name", None)}
        found |= {(label, name) for name in names if name.removeprefix(prefix) not in OF_DJANGO}
    return found


def test_every_operation_is_here() -> None:
    administering = {item.name for item in operations() if item.effect is Effect.ADMINISTER}
    assert administering == ON_REST.keys() | NEED_A_DIRECTORY.keys()
    for name in administering:
        assert find_audited_model(name.partition(".")[0])


def test_every_view_and_action_is_here() -> None:
    assert views_and_actions() == IN_ADMIN.keys() | CHANGES_NOTHING


@pytest.mark.parametrize("model_admin", admin.site._registry.values(), ids=lambda item: item.model._meta.label_lower)
def test_every_admin_records_or_changes_nothing(model_admin: Any) -> None:
    assert isinstance(model_admin, OperationAdmin | RecordedAdmin | ReadOnlyAdmin)
    assert not model_admin.list_editable
    if isinstance(model_admin, RecordedAdmin):
        assert model_admin.table.model is model_admin.model


def expect_record(world: World, change: Change) -> OperationRecord:
    known = set(OperationRecord.objects.values_list("pk", flat=True))
    attribute, id = change(world)
    assert contents() != world.before
    [record] = OperationRecord.objects.exclude(pk__in=known)
    assert (record.surface, record.outcome, record.owner) == ("rest", "succeeded", world.console.person.username)
    assert record.target_dn
    assert id is None or record.target_id == id
    assert record.target_kind == record.operation.partition(".")[0]
    [shown] = [item for item in record.changes if item["attribute"] == attribute]
    assert shown["before"] != shown["after"] or "<secret>" in shown["after"]
    shown_members = find_audited_model(record.target_kind).shown_members
    assert [item["attribute"] for item in record.changes if item["attribute"] not in shown_members] == []
    text = str(record.changes)
    assert not any(secret in text for secret in ("scrypt", "whsec_", "another", "unusual phrase", "geheim"))
    return record


@pytest.mark.parametrize("name", ON_REST)
def test_on_rest(name: str, world: World) -> None:
    assert expect_record(world, ON_REST[name]).operation == name


@pytest.mark.parametrize("name", NEED_A_DIRECTORY)
def test_with_a_directory(name: str, connection: DirectoryConnection) -> None:
    world = World(Console(make_person(superuser=True)), connection)
    assert expect_record(world, NEED_A_DIRECTORY[name]).operation == name


@pytest.mark.parametrize(("model", "name"), IN_ADMIN)
def test_in_the_back_office(model: str, name: str, world: World) -> None:
    record = expect_record(world, IN_ADMIN[model, name])
    action = {"add": "create", "change": "update", "delete_selected": "delete"}.get(name, name).replace("_", "-")
    if model == "keys.link":
        action += "-link"
    assert record.operation == f"{record.target_kind}.{action}"


@pytest.mark.parametrize("name", ON_REST)
def test_no_record_no_change_on_rest(name: str, world: World) -> None:
    expect_nothing(world, ON_REST[name])


@pytest.mark.parametrize(("model", "name"), IN_ADMIN)
def test_no_record_no_change_in_the_back_office(model: str, name: str, world: World) -> None:
    expect_nothing(world, IN_ADMIN[model, name])


def expect_nothing(world: World, change: Change) -> None:
    with unwritable_log(), pytest.raises(AssertionError, match="503"):
        change(world)
    assert contents() == world.before


def test_what_is_written_without_a_record_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a view or an action would, that somebody adds and forgets to record."""
    role = world.role()

    def forgetful(*_: Any, **__: Any) -> None:
        Role.objects.filter(pk=role.pk).update(description="x")

    monkeypatch.setattr(OperationAdmin, "changeform_view", forgetful)
    with pytest.raises(RuntimeError, match="without a record"), transaction.atomic():
        world.admin.post(f"/admin/keys/role/{role.pk}/change/", {})
    role.refresh_from_db()
    assert role.description == ""


def test_what_goes_along_is_recorded_too(world: World) -> None:
    """A person's saved filters end with the person."""
    person, saved = world.person(), world.saved_filter()
    saved.owner = person
    saved.save()
    assert world.rest("DELETE", f"users/{person.public_id}").status == 204
    names = set(OperationRecord.objects.values_list("operation", "target_id"))
    assert names == {("people.delete", person.public_id), ("saved-filters.delete", saved.pk)}


def test_what_stays_the_same_is_no_record(world: World) -> None:
    role, key = world.role(), world.key()
    world.rest("PATCH", f"roles/{role.pk}", {"name": role.name})
    world.rest("PATCH", f"api-keys/{key.pk}", {})
    assert not OperationRecord.objects.exists()


def test_values_and_names(world: World) -> None:
    """What is unchanged is left out; secrets never appear; the filters of the log find it."""
    key = world.key()
    world.rest("PATCH", f"api-keys/{key.pk}", {"name": "Payroll", "allowedAddresses": ["192.0.2.1"]})
    for query in (f"target={key.pk}", "operation=api-keys.update", f"owner={world.console.person.username}"):
        [record] = world.rest("GET", f"operations?{query}").body["items"]
        assert record["target"] == {"id": str(key.pk), "kind": "api-keys", "distinguishedName": "Payroll"}
        assert record["changes"] == [
            {"attribute": "name", "before": [key.name], "after": ["Payroll"]},
            {"attribute": "allowedAddresses", "before": [], "after": ["192.0.2.1"]},
        ]
        assert "raisesAccess" not in record


def test_commands_of_django(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """They go around all operations: `createsuperuser` and `changepassword` are recorded nevertheless."""
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "a long, unusual phrase")
    call_command("createsuperuser", username="root", email="root@example.test", interactive=False, verbosity=0)
    [made] = OperationRecord.objects.all()
    assert (made.operation, made.surface, made.owner) == ("people.create", "worker", "(command line)")
    assert made.raised_access
    monkeypatch.setattr("getpass.getpass", lambda *_, **__: "another unusual phrase")
    call_command("changepassword", "root", stdout=io.StringIO())
    changed = OperationRecord.objects.exclude(pk=made.pk).get()
    assert (changed.operation, changed.target_dn) == ("people.update", "root")
    assert changed.changes == [{"attribute": "password", "before": ["<secret>"], "after": ["<secret>"]}]


def test_the_demonstration(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, domain: Domain) -> None:
    """What it makes is recorded, and made anew it is no change; its approver stands behind nothing."""
    ca = tmp_path / "ca.pem"
    ca.write_text(domain.ca_pem)
    directory = {"url": "ldaps://dc", "baseDn": "DC=a", "bindDn": "CN=b", "bindPassword": "c", "caFile": str(ca)}
    known: dict[str, Any] = {"directory": directory}
    for _ in range(2):
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(known)))
        told = io.StringIO()
        call_command("seed_demo", stdout=told)
        known |= json.loads(told.getvalue())
    names = sorted(OperationRecord.objects.values_list("operation", flat=True))
    assert names == ["api-keys.create", "directories.create", "people.create", "people.create", "roles.create"]
