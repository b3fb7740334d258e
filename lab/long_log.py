"""Writes a log of the last 400 days by bulk, reads that are sealed, with the code of any release.

`write_long_log` has this file's source carried out by a process of that release, which has no such file.
"""

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

_AT_ONCE = 5000
_RECORDS_OF_A_SEAL = 250


def write_long_log(gateway: Any, records: int) -> None:
    """Write so many records into a log that nobody else writes to; `gateway` runs commands of its release."""
    gateway.run([sys.executable, "-c", Path(__file__).read_text(), str(records)])


def reads_of_last_400_days(count: int) -> Iterator[dict[str, Any]]:
    """Yield the values of so many records, oldest first."""
    end, directory = datetime.now(UTC), uuid4()
    for number in range(count):
        at = end - timedelta(days=400) * (1 - number / count)
        milliseconds = int(at.timestamp() * 1000)
        yield {
            "id": UUID(int=milliseconds << 80 | 0x7 << 76 | number % 4096 << 64 | 0b10 << 62 | random.getrandbits(62)),
            "at": at,
            "completed_at": at,
            "reversible": "none",
            "surface": "api",
            "operation": "users.read",
            "owner": f"owner-{number % 7}",
            "owner_id": number % 7 + 1_000_000,
            "key_name": f"key-{number % 20}",
            "credential_id": str(UUID(int=number % 20 + 1)),
            "client_address": "192.0.2.7",
            "request_id": str(uuid4()),
            "directory_id": directory,
            "directory": "corp",
            "target_id": UUID(int=number % 20_000 + 1),
            "target_kind": "user",
            "target_dn": f"CN=Person {number % 20_000 + 1},OU=Staff,DC=corp,DC=example,DC=test",
            "changes": [],
            "outcome": "succeeded",
        }


def main() -> None:
    """Write the log. Imports are those of the release."""
    import django

    django.setup()
    from audit.chain.seals import entry_of, mac_of, seal_after
    from audit.models import LogSeal, OperationRecord

    facts = reads_of_last_400_days(int(sys.argv[1]))
    last = LogSeal.objects.order_by("-number").first()
    while some := [OperationRecord(**each, mac=mac_of(each)) for each in islice(facts, _AT_ONCE)]:
        seals = []
        for start in range(0, len(some), _RECORDS_OF_A_SEAL):
            sealed = some[start : start + _RECORDS_OF_A_SEAL]
            last = seal_after(last, [entry_of(record) for record in sealed], at=sealed[-1].at)
            seals.append(last)
            for record in sealed:
                record.seal, record.sealed_as = last.number, "final"
        OperationRecord.objects.bulk_create(some)
        LogSeal.objects.bulk_create(seals)


if __name__ == "__main__":
    main()
