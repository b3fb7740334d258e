"""Versions of the gateway's own records (roles, keys, people, …), for ETag and If-Match.

Those of directory objects are the directory's own change numbers.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, TypeVar, cast

from django.db import connection

RecordT = TypeVar("RecordT", bound=Mapping[str, Any])


def version_of(facts: Mapping[str, Any]) -> str:
    """An opaque version that differs whenever one of the facts (JSON values) does: 20 hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]


def with_version(record: RecordT, *, passing: Collection[str] = ()) -> RecordT:
    """The same record with its `version`, which differs whenever a member does that is not among the `passing` ones."""
    facts = {name: value for name, value in record.items() if name != "version" and name not in passing}
    return cast("RecordT", {**record, "version": version_of(facts)})


def lock_record(resource: str, id: Any) -> None:
    """Let changes of one record go one after another: whoever comes second waits for the first one's transaction.

    A lock of its own, since a record may stand in several tables. SQLite has one writer at a time anyway.
    """
    if connection.vendor != "postgresql":
        return
    number = int.from_bytes(hashlib.sha256(f"{resource} {id}".encode()).digest()[:8], "big", signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
