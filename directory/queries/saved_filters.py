"""Saved filters: what one may hold, who may see one, and the search it stands for.

The table is in `directory.models`, how a search is run in `searches`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from django.db.models import Q, QuerySet

from active_directory import Entry
from core.call import Call
from core.errors import Forbidden, GatewayError, NotFound
from core.paging import PageQuery
from directory.errors import ObjectNotFound
from directory.lookup.access import client_of, find_base, parse_reference
from directory.lookup.visibility import Visibility, may_see_confidential, visibility_of
from directory.models.saved_filters import SavedFilter
from directory.queries.searches.definitions import SEARCHES, Search
from directory.queries.searches.filter_input import read_filter
from directory.queries.searches.filter_scoping import names_only_seen, scope_filter
from directory.queries.searches.search import SearchQuery
from directory.shapes import kinds
from directory.shapes.attribute_updates import pointer
from directory.shapes.kinds import RESOURCES
from directory.shapes.record import select

if TYPE_CHECKING:
    SearchedKind = str
else:
    SearchedKind = Literal[tuple(RESOURCES) + tuple(str(resource.kind) for resource in RESOURCES.values())]
"""What is searched, as a path calls it or as a record's `kind` does. `object` is any class, as `objects` is."""


def visible_filters(call: Call) -> QuerySet[SavedFilter]:
    """The filters of the call's directory that the person owns or that are shared.

    Inside scopes there are none that name objects outside.
    """
    assert call.directory is not None
    rows = SavedFilter.objects.filter(
        Q(owner_id=call.person.id) | Q(shared=True), connection_id=call.directory.id
    ).select_related("owner")
    if not call.scopes:
        return rows
    known, bases = visibility_of(call), names_of_bases(call, rows)
    return rows.filter(pk__in=[row.pk for row in rows if _names_only_known(row, bases, known)])


def _names_only_known(row: SavedFilter, bases: Mapping[UUID, str], visibility: Visibility) -> bool:
    if row.base_guid is not None and not visibility.knows(bases[row.base_guid]):
        return False
    try:
        condition, _ = read_filter(row.filter, visibility.schema, confidential=visibility.confidential)
    except GatewayError:  # the schema has changed since: what it names cannot be told
        return False
    return names_only_seen(condition, visibility)


def require_known(call: Call, row: SavedFilter) -> None:
    """Raise Forbidden for a filter that names objects outside the caller's scopes."""
    if call.scopes and not _names_only_known(row, names_of_bases(call, [row]), visibility_of(call)):
        raise Forbidden


def find_filter(call: Call, id: UUID) -> SavedFilter:
    """A filter the person may see; raises NotFound."""
    row = visible_filters(call).filter(id=id).first()
    if row is None:
        raise NotFound
    return row


def resource_of(kind: str) -> str:
    """The path whose search finds objects of this kind."""
    return kind if kind in RESOURCES else kinds.resource_of(kind)


def require_filter(call: Call, text: str) -> None:
    """Refuse a filter that the caller could not run now.

    Raises FilterMalformed, FilterUnsupported, FilterTooCostly or AttributeNotReadable.
    """
    with _naming("filter"):
        visibility = visibility_of(call)
        condition, _ = read_filter(text, visibility.schema, confidential=visibility.confidential)
        scope_filter(condition, visibility)


def require_attributes(call: Call, names: Sequence[str]) -> None:
    """Refuse attributes that the caller could not see. Raises AttributeUnknown or AttributeNotReadable."""
    with _naming("attributes"):
        confidential = may_see_confidential(call)
        select(client_of(call).schema, names, RESOURCES["objects"].kinds, confidential=confidential)


def find_given_base(call: Call, text: str) -> Entry:
    """The object to search below, as the body names it; raises InvalidRequest, ObjectNotFound or Forbidden."""
    reference = parse_reference(text, pointer=pointer("base"))
    try:
        return find_base(call, reference, pointer=pointer("base"))
    except ObjectNotFound:
        if not isinstance(reference, UUID) and not visibility_of(call).knows(str(reference)):
            raise Forbidden from None  # as if it existed
        raise


def names_of_bases(call: Call, rows: Iterable[SavedFilter]) -> dict[UUID, str]:
    """What the filters' bases are called now; those that are gone have the name last seen."""
    last_seen = {row.base_guid: row.base_dn for row in rows if row.base_guid is not None}
    if not last_seen:
        return {}
    return last_seen | {guid: entry.dn for guid, entry in client_of(call).read_many(last_seen, ("objectGUID",)).items()}


def search_of(row: SavedFilter) -> Search:
    """The search of the filter's kind. Its name is the revision's own, and so are the cursors made by it."""
    return replace(SEARCHES[resource_of(row.kind)], name=f"saved filter {row.id} revision {row.revision}")


def query_of(row: SavedFilter, page: PageQuery, *, sort: str | None) -> SearchQuery:
    """What a caller would send to run the same search by hand."""
    return SearchQuery.model_validate(
        {
            "filter": row.filter,
            "base": None if row.base_guid is None else str(row.base_guid),
            "scope": row.scope,
            "attributes": row.attributes or None,
            "sort": sort,
            "pageSize": page.page_size,
            "cursor": page.cursor,
        }
    )


@contextmanager
def _naming(member: str) -> Iterator[None]:
    """Refusals of a search's parameter name the member of the body instead."""
    try:
        yield
    except GatewayError as refusal:
        refusal.errors = tuple(replace(error, parameter=None, pointer=pointer(member)) for error in refusal.errors)
        raise
