"""The declarations of searches, a few lines each, and the parameters that all have. `search` runs them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from active_directory import Entry, Filter, Scope
from core.paging import PageQuery
from core.shapes import CommaList
from directory.queries.searches.conditions import EVERYDAY
from directory.queries.searches.filters import FILTER
from directory.queries.searches.listed import Listed
from directory.shapes.kinds import RESOURCES, Kind

SCOPES = {"base": Scope.BASE, "one-level": Scope.ONE_LEVEL, "subtree": Scope.SUBTREE}
"""LDAP scopes by the names that callers use."""

_CONDITIONS = " Parameters named as attributes or members of records are conditions, too: `department=Sales`."


class SearchQuery(PageQuery):
    """The parameters of every search of directory objects. All others are conditions, which `conditions` reads."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = Field(init=False)
    documented = EVERYDAY

    q: Annotated[str | None, Field(min_length=1, max_length=256, description="What a name or address begins with.")] = (
        None
    )
    filter: Annotated[str | None, Field(description=FILTER + _CONDITIONS)] = None
    base: Annotated[str | None, Field(description="UUID or distinguished name; default the directory's base.")] = None
    scope: Annotated[Literal["base", "one-level", "subtree"], Field(description="How deep below the base.")] = "subtree"
    attributes: Annotated[CommaList | None, Field(description="Attributes to return, with commas; `*` for all.")] = None
    sort: Annotated[str | None, Field(description="An attribute; `-` before it for descending order.")] = None


@dataclass(frozen=True, slots=True)
class Search:
    """What a search finds before the caller's own filter applies. It may be declared for one call.

    `accept` decides by the attributes `decided_by` what a filter cannot express. Where it returns None, it is asked
    again about an entry that has those of `needs`, too: a domain controller takes so long to compute some of them that
    they are read of few. `extend` gives further members of a record, from the whole entry and from the part of it that
    the caller may see; they override the record's own. `needs` are the attributes that it reads. `complete` finishes
    many records with one look-up. `base` replaces the connection's base. With `show_deleted` the search finds deleted
    objects, which scopes and the caller's base treat as lying below their last known parent. `listed` reads all that it
    may find from links.
    """

    name: str
    kinds: frozenset[Kind]
    condition: Filter
    needs: tuple[str, ...] = ()
    accept: Callable[[Entry], bool | None] | None = None
    decided_by: tuple[str, ...] = ()
    extend: Callable[[Entry, Entry], Mapping[str, Any]] | None = None
    complete: Callable[[Sequence[Any]], None] | None = None
    show_deleted: bool = False
    base: str | None = None
    listed: Callable[[], Listed] | None = None


SEARCHES: dict[str, Search] = {
    resource: Search(name=resource, kinds=RESOURCES[resource].kinds, condition=RESOURCES[resource].condition)
    for resource in RESOURCES
}
"""The searches of the kinds' paths, by resource."""
