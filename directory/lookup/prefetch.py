"""Reading at once what changes need that are prepared together: their objects, and what is the same for all of them.

A batch puts a `Prefetch` on the calls of its items. The functions that prepare a single change ask it for the objects
they read (`directory.lookup.access`, `directory.protection.rules`), and know nothing else of batches.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar
from uuid import UUID

from active_directory import Client, Entry, Modify, Write, note_asked
from core.call import Call

_Result = TypeVar("_Result")

_MATTERS_TO_OTHERS = frozenset(
    # Who is a member of what, and these marks, decide how changes of other objects are judged
    # (`directory.protection.rules`).
    {"member", "primarygroupid", "admincount"}
    # The directory itself refuses these by what other objects have: names must be free, a group's scope must suit.
    | {"samaccountname", "userprincipalname", "serviceprincipalname", "grouptype"}
)


def is_self_contained(write: Write | None) -> bool:
    """Whether changes of other objects may be judged, and even written, before this one as well as after it."""
    return isinstance(write, Modify) and not any(
        step.attribute.lower() in _MATTERS_TO_OTHERS for step in write.modifications
    )


class Prefetch:
    """What was read for the objects of some calls since it began; it tells nothing any more when it is closed.

    `attributes` are what the calls are known to need, by their names in lower case: it learns more of them from the
    first call that reads more.
    """

    def __init__(self, guids: Collection[UUID], attributes: dict[str, str]) -> None:
        self._guids = frozenset(guids)
        self._attributes = attributes
        self._entries: dict[UUID, Entry] | None = None
        self._kept: dict[object, object] = {}
        self._began = monotonic()
        self.is_open = True

    def find(self, client: Client, guid: UUID, attributes: Collection[str]) -> Entry | None:
        """The entry with at least these attributes; None if it is none of these objects, or was not found."""
        if guid not in self._guids or "*" in attributes:
            return None
        unknown = {name.lower(): name for name in attributes if name.lower() not in self._attributes}
        if unknown or self._entries is None:
            self._attributes |= unknown
            self._entries = client.read_many(self._guids, tuple(self._attributes.values()))
        found = self._entries.get(guid)
        if found is not None:  # read for another call, perhaps, and judged for this one
            note_asked(found.server)
        return found

    def keep(self, key: object, read: Callable[[], _Result]) -> _Result:
        """What `read` gave when it was first asked for under this key."""
        if key not in self._kept:
            self._kept[key] = read()
        return self._kept[key]  # type: ignore[return-value]

    @property
    def age(self) -> float:
        """Seconds since it began: nothing that it tells is older."""
        return monotonic() - self._began

    def close(self) -> None:
        self.is_open = False
        self._entries, self._kept = None, {}


class Prefetches:
    """The prefetches of one batch, one after the other: each knows what the ones before have learnt."""

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
    """The prefetch that a call may read from; None for one that is prepared alone, and once writing may have begun."""
    prefetch = call.prefetch
    return prefetch if isinstance(prefetch, Prefetch) and prefetch.is_open else None
