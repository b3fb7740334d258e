"""Writes a log of the last 400 days by bulk, sealed, so that it verifies: `python -m bench.growth.fill_log RECORDS`.

It runs in the environment of a gateway that does not. One record of ten is a change; of the days before the last 360
some are by somebody and of an object that never come again.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

from bench.growth import OLD_OBJECT, OLD_OWNER
from lab.long_log import reads_of_last_400_days, write_records

_AT_ONCE = 10_000


def _records(count: int) -> Iterator[dict[str, Any]]:
    for number, record in enumerate(reads_of_last_400_days(count)):
        if number % 10 == 0:
            changes = [{"attribute": "title", "before": [], "after": [f"Engineer {number}"]}]
            record |= {"operation": "users.update", "changes": changes, "reversible": "full"}
        if number % 100 == 0 and number < count // 10:
            record |= {"owner": OLD_OWNER, "target_id": UUID(OLD_OBJECT)}
        yield record | {"server": "ldaps://dc1.corp.example.test"}


def main() -> None:
    total = int(sys.argv[1])
    write_records(_records(total))

    from audit.chain.sealing import seal_records
    from audit.models import WebhookDelivery, WebhookEndpoint

    seal_records()  # which counts what is sealed
    endpoint = WebhookEndpoint.objects.create(name="growth", url="https://events.example.test/", enabled=False)
    deliveries = (
        WebhookDelivery(endpoint=endpoint, event="test", body="{}", state="delivered" if number % 10 else "dead")
        for number in range(total * 3 // 5)
    )
    while some := list(islice(deliveries, _AT_ONCE)):
        WebhookDelivery.objects.bulk_create(some)


if __name__ == "__main__":
    main()
