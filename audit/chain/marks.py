"""Marks on records that say how they are sealed, which the release before reads and this one no longer does.

As long as the release before may come back (docs/operations.md), records get them. Its index of what is to be sealed
says so: a log begun with this release never had it, and `gateway log slim` drops it. From then on a record of a read is
written once.
"""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import Q

from audit.chain.months import find_months, locked_briefly
from audit.models import OperationRecord, SealedAs

TABLE: Final = OperationRecord._meta.db_table
_INDEX: Final = "audit_to_seal"


def are_wanted() -> bool:
    """Whether the release before can still come back."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [_INDEX])
        else:
            cursor.execute("SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = %s", [_INDEX])
        return bool(cursor.fetchone()[0])


def mark(records: Collection[UUID], sealed_as: SealedAs, seal: int | None = None) -> None:
    """Note in records how, and in which seal, they were sealed; not where a forged one says so already."""
    noted = {"sealed_as": sealed_as} | ({} if seal is None else {"seal": seal})
    before = Q(sealed_as__isnull=True)
    if sealed_as == SealedAs.FINAL:
        before |= Q(sealed_as=SealedAs.OPEN)
    OperationRecord.objects.filter(before, id__in=records).update(**noted)


def give_up() -> None:
    """Drop the indexes that only the release before needs, without holding anybody up; it cannot come back then."""
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, TABLE)
    names = [
        name for name, about in found.items() if name == _INDEX or (about["index"] and about["columns"] == ["seal"])
    ]
    if names and find_months():  # PostgreSQL drops none of all partitions concurrently
        locked_briefly(lambda cursor: cursor.execute(f"DROP INDEX {', '.join(map(quote, names))}"))
        return
    with connection.cursor() as cursor:
        for name in names:
            how = "CONCURRENTLY " if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP INDEX {how}{quote(name)}")
