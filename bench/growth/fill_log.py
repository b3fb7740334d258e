"""Writes a log of the last 400 days by bulk, sealed, so that it verifies: `python -m bench.growth.fill_log RECORDS`.

It runs in the environment of a gateway that does not. One record of ten is a change; of the days before the last 360
some are by somebody and of an object that never come again.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

import django

from bench.growth import OLD_OBJECT, OLD_OWNER
from lab.long_log import reads_of_last_400_days

_AT_ONCE = 10_000


def changes_and_reads(count: int) -> Iterator[dict[str, Any]]:
    """Yield the values of so many records, oldest first."""
    for number, record in enumerate(reads_of_last_400_days(count)):
        if number % 10 == 0:
            changes = [{"attribute": "title", "before": [], "after": [f"Engineer {number}"]}]
            record |= {"operation": "users.update", "changes": changes, "reversible": "full"}
        if number % 100 == 0 and number < count // 10:
            record |= {"owner": OLD_OWNER, "target_id": UUID(OLD_OBJECT)}
        yield record | {"server": "ldaps://dc1.corp.example.test"}


def write_log(count: int) -> None:
    """Write and seal so many records into a log that nobody else writes to."""
    from audit.chain.sealing import seal_records
    from audit.chain.seals import mac_of
    from audit.models import OperationRecord

    records = changes_and_reads(count)
    while some := [OperationRecord(**each, mac=mac_of(each)) for each in islice(records, _AT_ONCE)]:
        OperationRecord.objects.bulk_create(some)
        seal_records()


def main() -> None:
    django.setup()
    from django.db import connection

    from audit.models import UnsealedRecord, WebhookDelivery, WebhookEndpoint

    total = int(sys.argv[1])
    write_log(total)
    if connection.vendor == "postgresql":  # as it would by itself; it is told nothing of what the tables hold
        with connection.cursor() as cursor:
            cursor.execute(f"VACUUM {UnsealedRecord._meta.db_table}")
    endpoint = WebhookEndpoint.objects.create(name="growth", url="https://events.example.test/", enabled=False)
    deliveries = (
        WebhookDelivery(endpoint=endpoint, event="test", body="{}", state="delivered" if number % 10 else "dead")
        for number in range(total * 3 // 5)
    )
    while some := list(islice(deliveries, _AT_ONCE)):
        WebhookDelivery.objects.bulk_create(some)


if __name__ == "__main__":
    main()
