"""Writes a log of the last 400 days by bulk, sealed, so that it verifies: `python -m bench.growth.fill_log RECORDS`.

It runs in the environment of a gateway that does not. One record of ten is a change; of the days before the last 360
some are by somebody and of an object that never come again. It takes 0.2 ms of processor a record.
"""

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID, uuid4

import django

from bench.growth import OLD_OBJECT, OLD_OWNER

_AT_ONCE = 10_000


def _records(count: int) -> Iterator[dict[str, object]]:
    from audit.identifiers import identifier_bounds

    end, directory = datetime.now(UTC), uuid4()
    for number in range(count):
        at = end - timedelta(days=400) * (1 - number / count)
        lowest, _ = identifier_bounds(at)
        is_change, is_old = number % 10 == 0, number < count // 10 and number % 100 == 0
        target = UUID(OLD_OBJECT) if is_old else UUID(int=number % 20_000 + 1)
        changes = [{"attribute": "title", "before": [], "after": [f"Engineer {number}"]}]
        yield {
            "id": UUID(int=lowest.int | random.getrandbits(62)),
            "at": at,
            "completed_at": at,
            "surface": "api",
            "operation": "users.update" if is_change else "users.read",
            "owner": OLD_OWNER if is_old else f"owner-{number % 7}",
            "owner_id": number % 7 + 1_000_000,
            "key_name": f"key-{number % 20}",
            "credential_id": str(UUID(int=number % 20 + 1)),
            "client_address": "192.0.2.7",
            "request_id": str(uuid4()),
            "directory_id": directory,
            "directory": "corp",
            "target_id": target,
            "target_kind": "user",
            "target_dn": f"CN=Person {target.int},OU=Staff,DC=corp,DC=example,DC=test",
            "changes": changes if is_change else [],
            "outcome": "succeeded",
            "reversible": "full" if is_change else "none",
            "server": "ldaps://dc1.corp.example.test",
        }


def main() -> None:
    django.setup()
    from django.db import connection

    from audit.chain.sealing import seal_records
    from audit.models import UnsealedRecord, WebhookDelivery, WebhookEndpoint
    from audit.read_buffer import reads

    total = int(sys.argv[1])
    records = _records(total)
    while some := list(islice(records, _AT_ONCE)):
        if not all(map(reads.add, some)) or not reads.flush():
            raise SystemExit("the database is away")
        seal_records()
    if connection.vendor == "postgresql":  # as it would by itself; it is told nothing of what the tables hold
        with connection.cursor() as cursor:
            cursor.execute(f"VACUUM {UnsealedRecord._meta.db_table}")
    endpoint = WebhookEndpoint.objects.create(name="growth", url="https://events.example.test/", enabled=False)
    deliveries = (
        WebhookDelivery(endpoint=endpoint, event="test", body="{}", state="delivered" if number % 10 else "dead")
        for number in range(total * 3 // 5)
    )
    while some_deliveries := list(islice(deliveries, _AT_ONCE)):
        WebhookDelivery.objects.bulk_create(some_deliveries)
    print(f"{total} records")


if __name__ == "__main__":
    main()
