"""One look at the directory for changes that are judged together: their objects are read at once, not one by one.

Judging is done by the same functions as for a single change, which know nothing of this: what they read of one object
is read of all of them (`directory.lookup.access`), and what was looked at since the look began is not looked at again.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import TypeVar
from uuid import UUID

from directory.ldap import Client, Entry, Modify, Write

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


class ReadAhead:
    """The looks of one batch. Which attributes its changes need it learns from the first one that reads them."""

    def __init__(self) -> None:
        self._attributes: dict[str, str] = {}  # by their names in lower case
        self._guids: tuple[UUID, ...] = ()
        self._entries: dict[UUID, Entry] | None = None
        self._kept: dict[object, object] = {}
        self._begun = 0.0

    @contextmanager
    def look(self, guids: Collection[UUID]) -> Iterator[None]:
        """Inside the block these objects are read together. Nothing may be written to them meanwhile."""
        self._guids, self._entries, self._kept, self._begun = tuple(guids), None, {}, monotonic()
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def find(self, client: Client, guid: UUID, attributes: Collection[str]) -> Entry | None:
        """The entry with at least these attributes; None if it is none of the look's objects, or was not found."""
        if guid not in self._guids or len(self._guids) == 1 or "*" in attributes:
            return None
        unknown = {name.lower(): name for name in attributes if name.lower() not in self._attributes}
        if unknown or self._entries is None:
            self._attributes |= unknown
            self._entries = client.read_many(self._guids, tuple(self._attributes.values()))
        return self._entries.get(guid)

    def keep(self, key: object, read: Callable[[], _Result]) -> _Result:
        """What `read` gave when it was first asked for under this key in this look."""
        if key not in self._kept:
            self._kept[key] = read()
        return self._kept[key]  # type: ignore[return-value]

    @property
    def age(self) -> float:
        """Seconds since the look began."""
        return monotonic() - self._begun


_current: ContextVar[ReadAhead | None] = ContextVar("read_ahead", default=None)


def current_look() -> ReadAhead | None:
    """The look that the caller is inside of, None outside of any."""
    return _current.get()
