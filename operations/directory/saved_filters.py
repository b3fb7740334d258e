"""Saved filters: searches stored under a name, and running them.

`directory.queries.filters_and_templates` checks their contents.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models.functions import Lower
from pydantic import Field
from typing_extensions import TypedDict

from core.call import Call
from core.database import own_rows
from core.errors import Forbidden
from core.operation import Effect, RateCategory, Target, operation
from core.paging import Page, PageQuery, page_of
from core.shapes import Body, Id, Moment, PartialUpdate, as_record, documented_as, example
from directory.models.filters_and_templates import SavedFilter
from directory.queries.filters_and_templates import (
    SearchedKind,
    base_names,
    find_filter,
    find_filter_base,
    require_runnable_filter,
    require_visible_attributes,
    require_visible_filter,
    saved_query,
    saved_search,
    visible_filters,
)
from directory.queries.searches.filters import FILTER
from directory.queries.searches.search import run_search
from directory.shapes.record import DirectoryObject

RUN, MANAGE = "directory.run_savedfilter", "directory.manage_savedfilter"

FilterName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"\S", description="Unique among your own.")]
SearchedKinds = Annotated[
    SearchedKind, Field(description="What is searched, as paths (`users`) or as records (`user`) call it.")
]
FilterText = Annotated[str, Field(description=FILTER)]
FilterBase = Annotated[
    str | None, Field(description="UUID or distinguished name; kept by objectGUID. null: the directory's base.")
]
SearchScope = Annotated[Literal["base", "one-level", "subtree"], Field(description="How deep below the base.")]
ShownAttributes = Annotated[
    list[str], Field(max_length=200, description="Attributes to return, `*` for all; empty: a useful set per kind.")
]
Shared = Annotated[bool, Field(description="Whether others who work on this directory see and run it too.")]


class CreateSavedFilter(Body):
    model_config = example(
        name="Leavers still enabled",
        kind="users",
        filter="(&(department=Left)(!(userAccountControl:1.2.840.113556.1.4.803:=2)))",
        base="OU=Staff,DC=corp,DC=example,DC=com",
        attributes=["displayName", "mail", "department"],
        shared=True,
    )

    name: FilterName
    kind: SearchedKinds = "objects"
    filter: FilterText
    base: FilterBase = None
    scope: SearchScope = "subtree"
    attributes: ShownAttributes = []
    shared: Shared = False


class UpdateSavedFilter(CreateSavedFilter, PartialUpdate):
    """A member that is left out stays as it is."""

    model_config = example(filter="(department=Left)", shared=False)


class RunQuery(PageQuery):
    """The parameters of a run: everything else is saved with the filter."""

    sort: str | None = Field(None, description="An attribute; `-` before it for descending order.")


class SavedFilterRecord(TypedDict):
    """A saved filter. `base` is the present name of the object with the objectGUID `baseId`."""

    id: Id
    version: str
    name: str
    kind: Annotated[str, documented_as(SearchedKind)]
    filter: str
    base: str | None
    baseId: Id | None
    scope: Annotated[str, documented_as(SearchScope)]
    attributes: list[str]
    shared: bool
    owner: str
    createdAt: Moment | None
    changedAt: Moment | None


@operation(
    "saved-filters.list",
    "GET ad/saved-filters",
    "List saved filters",
    permission=frozenset({RUN, MANAGE}),
    target=Target.DIRECTORY,
)
def list_saved_filters(call: Call, *, query: PageQuery) -> Page[SavedFilterRecord]:
    """List your saved filters for this directory and those that others share, by name."""
    rows = visible_filters(call).annotate(lower_name=Lower("name"))
    page: Page[SavedFilter] = page_of(call, rows, query=query, order=("lower_name", "id"), render=lambda row: row)
    names = base_names(call, page["items"])
    return {**page, "items": [_rendered(row, names) for row in page["items"]]}


@operation(
    "saved-filters.read",
    "GET ad/saved-filters/{id}",
    "Read {a saved filter}",
    permission=frozenset({RUN, MANAGE}),
    target=Target.DIRECTORY,
)
def read_saved_filter(call: Call, *, id: UUID) -> SavedFilterRecord:
    """Read one saved filter of your own, or one that is shared."""
    return _record(call, find_filter(call, id))


@operation(
    "saved-filters.create",
    "POST ad/saved-filters",
    "Create {a saved filter}",
    permission=MANAGE,
    target=Target.DIRECTORY,
    creates=True,
    effect=Effect.ADMINISTER,
)
def create_saved_filter(call: Call, *, body: CreateSavedFilter) -> SavedFilterRecord:
    """Save a filter under a name. It is checked against the directory's schema now and at each run."""
    assert call.directory is not None
    row = SavedFilter(connection_id=call.directory.id, owner_id=call.person.id)
    return _save(call, row, dict(body))


@operation(
    "saved-filters.update",
    "PATCH ad/saved-filters/{id}",
    "Update {a saved filter}",
    permission=MANAGE,
    target=Target.DIRECTORY,
    effect=Effect.ADMINISTER,
)
def update_saved_filter(call: Call, *, id: UUID, body: UpdateSavedFilter) -> SavedFilterRecord:
    """Change a saved filter of your own. Cursors of runs before the change are no longer valid."""
    return _save(call, _find_own(call, id), body.sent_values())


@operation(
    "saved-filters.delete",
    "DELETE ad/saved-filters/{id}",
    "Delete {a saved filter}",
    permission=MANAGE,
    target=Target.DIRECTORY,
    effect=Effect.ADMINISTER,
)
def delete_saved_filter(call: Call, *, id: UUID) -> None:
    """Delete a saved filter of your own."""
    _find_own(call, id).delete()


@operation(
    "saved-filters.run",
    "GET ad/saved-filters/{id}/run",
    "Run {a saved filter}",
    permission=RUN,
    target=Target.DIRECTORY,
    rate=RateCategory.DIRECTORY_SEARCH,
)
def run_saved_filter(call: Call, *, id: UUID, query: RunQuery) -> Page[DirectoryObject]:
    """Run a saved filter with your own rights: `directory.read_object` too, and nothing outside your scopes."""
    if not call.may("directory.read_object"):
        raise Forbidden
    row = find_filter(call, id)
    return run_search(call, saved_search(row), saved_query(row, query, sort=query.sort))


def _find_own(call: Call, id: UUID) -> SavedFilter:
    """The caller's own filter; raises NotFound, or Forbidden for one that somebody else shares."""
    row = find_filter(call, id)
    if row.owner_id != call.person.id:
        raise Forbidden
    return row


def _save(call: Call, row: SavedFilter, given: dict[str, Any]) -> SavedFilterRecord:
    """Check the given members and save them; raises Conflict for a name that the owner uses already."""
    if "filter" in given:
        require_runnable_filter(call, given["filter"])
    if "attributes" in given:
        require_visible_attributes(call, given["attributes"])
    if "base" in given:
        text = given.pop("base")
        base = None if text is None else find_filter_base(call, text)
        row.base_guid, row.base_dn = (None, "") if base is None else (base.guid, base.dn)
    own_rows.assign(row, given)
    require_visible_filter(call, row)
    own_rows.save(row, taken=f"You have a saved filter called {row.name} for this directory already.")
    return _record(call, row)


def _record(call: Call, row: SavedFilter) -> SavedFilterRecord:
    return _rendered(row, base_names(call, [row]))


def _rendered(row: SavedFilter, names: dict[UUID, str]) -> SavedFilterRecord:
    return as_record(
        SavedFilterRecord,
        row,
        version=str(row.revision),
        base=None if row.base_guid is None else names[row.base_guid],
        baseId=None if row.base_guid is None else str(row.base_guid),
        owner=row.owner.username,
    )
