"""A statement that is executed alone, on both databases."""

import pytest
from django.db import DatabaseError, connection, transaction

from audit import log
from audit.models import OperationRecord
from core.database.prepared import execute_alone
from tests.audit.calls import CALL

pytestmark = [pytest.mark.sqlite, pytest.mark.django_db(transaction=True)]

_CHANGE = "UPDATE audit_operationrecord SET code = code WHERE id = %s"


def test_it_is_committed_and_leaves_the_connection_as_it_was() -> None:
    record = log.record_intent(CALL, log.Intent(operation="users.update"))
    assert execute_alone(_CHANGE, [record.id]) == 1
    with pytest.raises(DatabaseError):
        execute_alone("UPDATE audit_operationrecord SET no_such = %s", ["x"])
    assert connection.get_autocommit()
    connection.close()  # what was not committed would be gone
    assert OperationRecord.objects.filter(id=record.id).exists()


def test_it_does_not_join_a_transaction_of_its_caller() -> None:
    with transaction.atomic(), pytest.raises(RuntimeError):
        execute_alone(_CHANGE, ["0"])
