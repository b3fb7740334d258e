"""The role of `deploy/postgresql/service-role.sql`: the gateway works with it, and it cannot touch what was logged."""
# ruff: noqa: S608 - constants are put together here

import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction

from audit import log
from audit.chain.sealing import seal_records
from audit.chain.seals import COMPLETION, FILLED_IN, SEALING, SEALS, TABLE, deletions_allowed
from audit.models import ChangeClaim, LogSeal, OperationRecord
from core.call import SupervisionLevel, Surface
from lab.commands import PROJECT
from lab.directory import Directory, random_name
from tests.audit.calls import make_call
from tests.audit.chain.sealed_log import verify
from tests.audit.every_change import CHANGES, World, attempt
from tests.support.cast import Console, Integration, make_integration, make_person
from tests.support.database import live_database_url

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no roles"),
]


@pytest.fixture
def service(db: None) -> Iterator[str]:
    """The role, with what the file grants it."""
    name, url = random_name("service"), live_database_url()

    def psql(*arguments: str) -> None:
        done = subprocess.run(
            ["psql", "--quiet", *arguments, url], check=False, capture_output=True, text=True, cwd=PROJECT
        )
        assert done.returncode == 0, done.stderr

    psql("--command", f'CREATE ROLE "{name}"')
    for _ in range(2):  # a second time changes nothing
        psql("--set", f"service={name}", "--file", "deploy/postgresql/service-role.sql")
    yield name
    psql("--command", f'DROP OWNED BY "{name}"', "--command", f'DROP ROLE "{name}"')


def become(role: str) -> None:
    """Work as the role, until the test's transaction is taken back."""
    with connection.cursor() as cursor:
        cursor.execute(f'SET ROLE "{role}"')


def test_the_gateway_works_with_it(
    integration: Integration, service: str, directory: Directory, organizational_unit: str
) -> None:
    asking = make_integration(integration.key.links.get().connection, level=SupervisionLevel.ASK_EVERY_CHANGE)
    console = Console(make_person(superuser=True))
    world = World(integration, directory, organizational_unit)
    become(service)
    for change in CHANGES:
        attempted = attempt(change, world)
        answer = attempted.ask(integration)
        assert answer.status < 300, (change.name, answer)
    user = world.add("users")
    assert asking.patch(f"/api/ad/users/{user}", {"replace": {"title": "Countess"}}).status == 202
    role = console.post("/rest/roles", {"name": "Readers", "permissions": ["directory.read_object"]})
    assert role.status == 201, role
    assert console.patch(f"/rest/roles/{role.body['id']}", {"description": "all"}).status == 200
    assert console.delete(f"/rest/roles/{role.body['id']}").status == 204
    assert seal_records() > 0
    assert verify(), "which is refused where anything is wrong"


@pytest.mark.parametrize(
    "statement",
    [
        f"ALTER TABLE {TABLE} DISABLE TRIGGER ALL",
        f"ALTER TABLE {SEALS} DISABLE TRIGGER audit_seals_stay",
        f"DROP TRIGGER audit_no_delete ON {TABLE}",
        "DROP FUNCTION audit_refuse() CASCADE",
        "CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'",
        f"DROP TABLE {TABLE}",
        f"TRUNCATE {TABLE}",
        f"DELETE FROM {TABLE}",
        f"DELETE FROM {SEALS}",
        f"UPDATE {SEALS} SET number = number",
        f"UPDATE {TABLE} SET owner = 'somebody else'",
        "SET session_replication_role = replica",
        "DELETE FROM audit_changeclaim",
        (
            "CREATE TEMPORARY TABLE mine (id uuid, change_request_id uuid);"
            " CREATE TRIGGER free AFTER UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION audit_claim_change()"
        ),
        "DELETE FROM django_migrations",
        "CREATE TABLE mine (id int)",
    ],
)
def test_it_cannot_get_around_the_triggers(service: str, statement: str) -> None:
    become(service)
    with (
        pytest.raises(DatabaseError, match=r"must be owner|permission denied"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)


def test_it_claims_changes_by_recording_them_alone(service: str) -> None:
    call = make_call(surface=Surface.WORKER, change_request_id=uuid4())
    claims = ChangeClaim.objects.filter(change_request_id=call.change_request_id)
    with transaction.atomic():
        become(service)
        record = log.record_administration(call, outcome="pending", operation="users.update")
        assert claims.get().record_id == record.id
        OperationRecord.objects.filter(id=record.id).update(outcome="failed")
        assert not claims.exists()
        transaction.set_rollback(True)


def test_who_may_delete_and_owns_nothing_cannot_remove_records(service: str) -> None:
    log.record_refusal(make_call(), operation="users.update", code="x")
    seal_records()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f'GRANT DELETE ON {TABLE}, {SEALS} TO "{service}"')
        become(service)
        for rows in (OperationRecord.objects.all(), LogSeal.objects.all()):
            with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), deletions_allowed():
                rows.delete()
        transaction.set_rollback(True)  # the role is dropped before the test's own transaction is


def test_it_has_what_each_table_needs(service: str) -> None:
    """A new table, and a new column of the log that is completed, is not forgotten."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.column_privileges "
            "WHERE grantee = %s AND table_name = %s AND privilege_type = 'UPDATE'",
            [service, TABLE],
        )
        assert {name for (name,) in cursor.fetchall()} == {*COMPLETION, *FILLED_IN, *SEALING}
        cursor.execute(
            "SELECT table_name, array_agg(privilege_type::text) FROM information_schema.role_table_grants "
            "WHERE grantee = %s GROUP BY table_name",
            [service],
        )
        granted = {table: set(privileges) for table, privileges in cursor.fetchall()}
    tables = {model._meta.db_table for model in apps.get_models(include_auto_created=True) if model._meta.managed}
    appended = {OperationRecord._meta.db_table, SEALS}
    assert granted.pop(ChangeClaim._meta.db_table) == {"SELECT"}
    for table in tables - {ChangeClaim._meta.db_table}:
        assert granted[table] == {"SELECT", "INSERT"} | (set() if table in appended else {"UPDATE", "DELETE"}), table
