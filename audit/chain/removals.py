"""What has left the log: records that were removed when their time was over, and the seals that named only such ones.

A removal is a seal that states how many complete records before a moment were removed. Once the oldest seals name
nothing that is still there, they are closed: a digest, a seal again, states the last of them with its MAC, from which
the chain goes on, and how many removed records the seals between that one and the digest still name. It takes the place
of the removals and digests before it. Whoever has no key can make neither.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import BinaryField, Value
from django.db.models.functions import Length

from audit.chain.presence import NOTHING
from audit.chain.row_checks import MalformedRow, read_by_key, read_rows
from audit.chain.seals import (
    CLOSED_UP_TO,
    ENTRY_BYTES,
    REMOVED,
    count_removed,
    is_successor,
    read_digest,
    unpack,
)
from audit.models import LogSeal


@dataclass(frozen=True, slots=True)
class Removal:
    """A seal that states that the gateway removed the complete records before `kept_from` from earlier seals."""

    seal: int
    kept_from: UUID
    removed: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The seals up to `last`, whose MAC is `mac`, have left, as the digest of this number, `seal`, states.

    All complete records before `kept_from` were removed by then, `removed` of which are named by seals in between.
    """

    last: int = 0
    mac: str = ""
    seal: int = 0
    kept_from: UUID = NOTHING
    removed: int = 0

    def last_seal(self) -> LogSeal | None:
        """What the next seal follows; None if that is the first one."""
        return LogSeal(number=self.last, mac=self.mac) if self.last else None


_NONE: Final = Closed()


def find_closed() -> Closed:
    """What the newest digest states that the gateway made; nothing if there is none."""
    last_named = LogSeal._meta.indexes[0].expressions[0]
    lowest = Value(CLOSED_UP_TO, output_field=BinaryField())
    digests = LogSeal.objects.alias(named=last_named).filter(named__gte=lowest).order_by("-named", "-number")
    numbers, seen = list(digests.values_list("number", flat=True)), list[int]()
    while numbers != seen:  # else further seals, these among them, were closed meanwhile
        if closed := next(filter(None, map(_read_closed, numbers)), None):
            return closed
        numbers, seen = list(digests.values_list("number", flat=True)), numbers
    return _NONE


def _read_closed(number: int) -> Closed | None:
    found = read_by_key(LogSeal, [number - 1, number])
    seal, previous = found.get(number), found.get(number - 1)
    stated = read_digest(bytes(seal.entries)) if isinstance(seal, LogSeal) else None
    if stated is None:
        return None
    closed = Closed(*stated[:2], number, *stated[2:])
    if closed.last == number - 1:
        previous = closed.last_seal()
    is_ours = isinstance(seal, LogSeal) and not isinstance(previous, MalformedRow) and is_successor(seal, previous)
    return closed if is_ours else None


def find_seal(number: int) -> LogSeal | MalformedRow | None:
    """A seal, or what is known of it if it is the last one that was closed."""
    seal = read_by_key(LogSeal, [number]).get(number)
    if seal is None and number and (closed := find_closed()).last == number:
        return closed.last_seal()
    return seal


def has_seal(number: int, mac: str) -> bool:
    """Whether the log has a seal, or had it until it was closed."""
    if LogSeal.objects.filter(number=number, mac=mac).exists():
        return True
    closed = find_closed()
    return number < closed.last or (number, mac) == (closed.last, closed.mac)


def find_removals(*, after: int = 0) -> list[Removal]:
    """The removals after a seal, in order, all up to the newest digest in one.

    Ignores seals that the gateway did not make: they justify no removal.
    """
    closed = find_closed()
    removals = [Removal(closed.seal, closed.kept_from, closed.removed)] if closed.seal > after else []
    with_one_entry = LogSeal.objects.annotate(octets=Length("entries")).filter(octets=ENTRY_BYTES)
    for seal in read_rows(with_one_entry.filter(number__gt=max(after, closed.seal))):
        if isinstance(seal, MalformedRow):
            continue
        (entry,) = unpack(bytes(seal.entries))
        if entry.phase != REMOVED:
            continue
        previous = find_seal(seal.number - 1)
        if not isinstance(previous, MalformedRow) and is_successor(seal, previous):
            removals.append(Removal(seal.number, entry.record_id, count_removed(entry)))
    return removals
