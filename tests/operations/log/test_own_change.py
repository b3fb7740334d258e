"""Following a change that one has asked for, without the right to read the log."""

from uuid import UUID, uuid4

import pytest

from audit import log
from audit.models import OperationRecord
from core.call import PersonRef
from directory.models import DirectoryConnection
from lab.directory import Directory
from lab.domain import Domain
from tests.audit.calls import make_call
from tests.support.cast import Console, as_scopes, make_connection, make_person

pytestmark = pytest.mark.django_db

MEMBERS = "id at completedAt operation directory target outcome code reversible"


@pytest.fixture
def connection(db: None, domain: Domain) -> DirectoryConnection:
    return make_connection(domain)


def disable(console: Console, ada: UUID) -> OperationRecord:
    assert console.post(f"/rest/ad/users/{ada}/disable").status == 200
    return OperationRecord.objects.get(operation="users.disable")


@pytest.fixture
def ada(directory: Directory, organizational_unit: str) -> UUID:
    return directory.add_user("Ada", parent=organizational_unit)


@pytest.fixture
def console(connection: DirectoryConnection) -> Console:
    return Console(make_person(may=["directory.read_object", "directory.disable_account"]))


def test_it_works(console: Console, ada: UUID, directory: Directory) -> None:
    record = disable(console, ada)
    answer = console.get(f"/rest/operations/{record.id}/outcome")
    assert answer.status == 200
    assert list(answer.body) == MEMBERS.split()
    assert answer.body["target"] == {"id": str(ada), "kind": "user", "distinguishedName": directory.dn(ada)}
    assert (answer.body["outcome"], answer.body["code"]) == ("succeeded", None)
    assert console.get(f"/rest/operations/{record.id}").status == 403


def test_that_of_somebody_else_is_not_found(console: Console, ada: UUID) -> None:
    record = disable(console, ada)
    assert Console(make_person(superuser=True)).get(f"/rest/operations/{record.id}/outcome").status == 404
    assert console.get(f"/rest/operations/{uuid4()}/outcome").status == 404


def test_a_read_is_not_found(console: Console) -> None:
    me = PersonRef(id=console.person.pk, username=console.person.username, display_name="")
    record = log.record_intent(make_call(person=me), log.Intent(operation="users.read"))
    assert console.get(f"/rest/operations/{record.id}/outcome").status == 404


def test_outside_of_scopes_it_is_not_found(
    console: Console, connection: DirectoryConnection, directory: Directory, organizational_unit: str, ada: UUID
) -> None:
    record = disable(console, ada)
    elsewhere = directory.guid(directory.add_unit("Elsewhere", parent=organizational_unit))
    person = console.person
    person.scopes = as_scopes([elsewhere], connection)
    person.save(update_fields=["scopes"])
    assert console.get(f"/rest/operations/{record.id}/outcome").status == 404
