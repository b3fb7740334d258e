"""Queries that take too long are ended, and only those inside a limit."""

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from core.database.time_limit import QueryTookTooLong, time_limit

pytestmark = pytest.mark.sqlite


def read_for(seconds: float) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_sleep(%s)", [seconds])
        else:  # some 20 million steps a second
            steps = int(seconds * 3_000_000)
            cursor.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %s) SELECT max(i) FROM n",
                [steps],
            )
        cursor.fetchall()


def is_limited() -> bool:
    try:
        read_for(0.3)
    except OperationalError:
        return True
    return False


@pytest.mark.django_db(transaction=True)
def test_a_query_that_takes_too_long_is_ended() -> None:
    with pytest.raises(QueryTookTooLong), time_limit(0.05):
        read_for(20)
    assert not is_limited(), "what comes later has the time it needs"


@pytest.mark.django_db
def test_each_query_has_the_time() -> None:
    with time_limit(20):
        for _ in range(3):
            read_for(0.01)
        with pytest.raises(QueryTookTooLong), time_limit(0.05):
            read_for(20)
        read_for(0.3)


@pytest.mark.django_db
def test_the_outer_limit_holds_again() -> None:
    with pytest.raises(QueryTookTooLong):
        read_twice()


def read_twice() -> None:
    with time_limit(0.1):
        with time_limit(20):
            read_for(0)
        read_for(20)


@pytest.mark.django_db
def test_a_transaction_goes_on() -> None:
    with transaction.atomic():
        with pytest.raises(QueryTookTooLong), time_limit(0.05):
            read_for(20)
        assert not is_limited()


@pytest.mark.django_db
def test_other_failures_are_not_taken_for_it() -> None:
    with pytest.raises(DatabaseError, match="nowhere"), time_limit(20), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")
    assert not is_limited()
