"""The searches the gateway offers, each a record of a few lines. How one is run is in `search`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from active_directory import Entry, Filter, Scope
from directory.shapes.kinds import RESOURCES, Kind

SCOPES = {"base": Scope.BASE, "one-level": Scope.ONE_LEVEL, "subtree": Scope.SUBTREE}
"""What callers name the scope of a search by."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a search is confined to, before anything the caller asks for. May be made for one call.

    `needs` are attributes read besides the record's own, for `accept` (refines what a filter cannot say, such as
    computed attributes) and `extend` (members the record gets besides, of an entry and of as much of it as the caller
    may see; they win over its own). `complete` finishes many records together, where one look-up does for all of them.
    `base` takes the place of the directory's base. With `show_deleted` objects are found in the container of deleted
    objects too; their place, for scopes and for the caller's base, is then their last known parent. One that is
    `expensive` keeps a domain controller busy whatever the caller asks for.
    """

    name: str
    kinds: frozenset[Kind]
    condition: Filter
    needs: tuple[str, ...] = ()
    accept: Callable[[Entry], bool] | None = None
    extend: Callable[[Entry, Entry], Mapping[str, Any]] | None = None
    complete: Callable[[Sequence[Any]], None] | None = None
    show_deleted: bool = False
    base: str | None = None
    expensive: bool = False


SEARCHES: dict[str, Search] = {
    resource: Search(name=resource, kinds=RESOURCES[resource].kinds, condition=RESOURCES[resource].condition)
    for resource in RESOURCES
}
"""The search of each kind's path, by resource."""
