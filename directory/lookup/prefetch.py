"""Reading at once what a batch of changes needs: the objects of all its changes, and what they have in common.

A batch puts a `Prefetch` on the calls of its items. The functions that prepare a single change look there first for the
objects they read (`directory.lookup.access`, `directory.protection.rules`), and know nothing else of batches.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar
from uuid import UUID

from active_directory import Client, Entry, Modify, Write, note_asked
from core.call import Call

_Result = TypeVar("_Result")

_AFFECTS_OTHERS = frozenset(
    # Memberships and adminCount decide whether other objects are protected (`directory.protection.rules`).
    {"member", "primarygroupid", "admincount"}
    # For these the directory checks other objects: names must be free, a group's scope must suit its members.
    | {"samaccountname", "userprincipalname", "serviceprincipalname", "grouptype"}
)


def is_self_contained(write: Write | None) -> bool:
    """Whether the order of this write and writes to other objects does not matter, so that they may be batched."""
    return isinstance(write, Modify) and not any(
        step.attribute.lower() in _AFFECTS_OTHERS for step in write.modifications
    )


class Prefetch:
    """The entries of some calls' objects, read together since it began. Once it is closed, calls read for themselves.

    `attributes` are those that the calls are known to need, by lower-case name; the first call that reads others adds
    them.
    """

    def __init__(self, guids: Collection[UUID], attributes: dict[str, str]) -> None:
        self._guids = frozenset(guids)
        self._attributes = attributes
        self._entries: dict[UUID, Entry] | None = None
        self._kept: dict[object, object] = {}
        self._began = monotonic()
        self.is_open = True

    def find(self, client: Client, guid: UUID, attributes: Collection[str]) -> Entry | None:
        """The entry with at least these attributes; None for another object, or one that was not found."""
        if guid not in self._guids or "*" in attributes:
            return None
        unknown = {name.lower(): name for name in attributes if name.lower() not in self._attributes}
        # All objects are read again, once, as the other calls will need the same attributes.
        if unknown or self._entries is None:
            self._attributes |= unknown
            self._entries = client.read_many(self._guids, tuple(self._attributes.values()))
        found = self._entries.get(guid)
        if found is not None:  # the entry may have been read for another call, but this one relies on its server too
            note_asked(found.server)
        return found

    def get_or_read(self, key: object, read: Callable[[], _Result]) -> _Result:
        """The value kept under this key; the first call reads it."""
        if key not in self._kept:
            self._kept[key] = read()
        return self._kept[key]  # type: ignore[return-value]

    @property
    def age(self) -> float:
        """Seconds since it began; nothing in it is older."""
        return monotonic() - self._began

    def close(self) -> None:
        self.is_open = False
        self._entries, self._kept = None, {}


class Prefetches:
    """The prefetches of one batch, one after another. They share the attributes that earlier ones learnt of."""

    def __init__(self) -> None:
        self._attributes: dict[str, str] = {}

    @contextmanager
    def of(self, guids: Collection[UUID]) -> Iterator[Prefetch]:
        """A prefetch of these objects, open inside the block. Nothing may be written to them meanwhile."""
        prefetch = Prefetch(guids, self._attributes)
        try:
            yield prefetch
        finally:
            prefetch.close()


def prefetch_of(call: Call) -> Prefetch | None:
    """The prefetch that a call may read from; None for a single change, and once writing may have begun."""
    prefetch = call.prefetch
    return prefetch if isinstance(prefetch, Prefetch) and prefetch.is_open else None
