"""Saved filters and change templates: what they may hold, who may see them, and the search that a filter runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from django.db.models import Q, QuerySet

from active_directory import Entry, is_credential
from core.call import Call
from core.database import own_rows
from core.errors import Forbidden, GatewayError, InvalidRequest
from core.paging import PageQuery
from core.text.messages import message
from directory import errors
from directory.errors import ObjectNotFound
from directory.lookup.access import (
    client_of,
    find_base,
    find_object,
    find_parent,
    is_within_any,
    parse_reference,
    scope_bases,
)
from directory.lookup.visibility import Visibility, may_see_confidential, visibility_of
from directory.models.filters_and_templates import ChangeTemplate, SavedFilter
from directory.queries.searches.definitions import SEARCHES, Search, SearchQuery
from directory.queries.searches.filters import is_filter_visible, read_filter, scope_filter
from directory.shapes import kinds
from directory.shapes.inputs import pointer
from directory.shapes.kinds import RESOURCES
from directory.shapes.placeholders import sole_placeholder
from directory.shapes.record import select

if TYPE_CHECKING:
    SearchedKind = str
else:
    SearchedKind = Literal[tuple(RESOURCES) + tuple(str(resource.kind) for resource in RESOURCES.values())]
"""What a filter searches for: a path such as `users`, or a record's `kind` such as `user`."""


def visible_filters(call: Call) -> QuerySet[SavedFilter]:
    """The filters of the call's directory that the person owns or that are shared.

    Without those that name objects outside the caller's scopes.
    """
    assert call.directory is not None
    rows = SavedFilter.objects.filter(
        Q(owner_id=call.person.id) | Q(shared=True), connection_id=call.directory.id
    ).select_related("owner")
    if not call.scopes:
        return rows
    known, bases = visibility_of(call), base_names(call, rows)
    return rows.filter(pk__in=[row.pk for row in rows if _is_saved_filter_visible(row, bases, known)])


def _is_saved_filter_visible(row: SavedFilter, bases: Mapping[UUID, str], visibility: Visibility) -> bool:
    if row.base_guid is not None and not visibility.may_know(bases[row.base_guid]):
        return False
    try:
        condition, _ = read_filter(row.filter, visibility.schema, confidential=visibility.confidential)
    except GatewayError:  # the schema has changed since, so nobody can tell which objects it names
        return False
    return is_filter_visible(condition, visibility)


def require_visible_filter(call: Call, row: SavedFilter) -> None:
    """Raise Forbidden for a filter that names objects outside the caller's scopes."""
    if call.scopes and not _is_saved_filter_visible(row, base_names(call, [row]), visibility_of(call)):
        raise Forbidden


def find_filter(call: Call, id: UUID) -> SavedFilter:
    """A filter the person may see; raises NotFound."""
    return own_rows.find(visible_filters(call), id=id)


def resource_of(kind: str) -> str:
    """The path whose search a filter for this kind runs."""
    return kind if kind in RESOURCES else kinds.resource_of(kind)


def require_runnable_filter(call: Call, text: str) -> None:
    """Refuse a filter that the caller could not run now.

    Raises FilterMalformed, FilterValueInvalid, FilterUnsupported, FilterTooCostly or AttributeNotReadable.
    """
    with _pointing_to("filter"):
        visibility = visibility_of(call)
        condition, _ = read_filter(text, visibility.schema, confidential=visibility.confidential)
        scope_filter(condition, visibility)


def require_visible_attributes(call: Call, names: Sequence[str]) -> None:
    """Refuse attributes that the caller could not see. Raises AttributeUnknown or AttributeNotReadable."""
    with _pointing_to("attributes"):
        confidential = may_see_confidential(call)
        select(client_of(call).schema, names, RESOURCES["objects"].kinds, confidential=confidential)


def find_filter_base(call: Call, text: str) -> Entry:
    """The object that `base` of the body names; raises InvalidRequest, ObjectNotFound or Forbidden."""
    reference = parse_reference(text, pointer=pointer("base"))
    try:
        return find_base(call, reference, pointer=pointer("base"))
    except ObjectNotFound:
        if not isinstance(reference, UUID) and not visibility_of(call).may_know(str(reference)):
            raise Forbidden from None  # the same answer as for an object that exists out of sight
        raise


def base_names(call: Call, rows: Iterable[SavedFilter]) -> dict[UUID, str]:
    """The names of the filters' bases now, by objectGUID; for a deleted base the name it was last seen with."""
    last_seen = {row.base_guid: row.base_dn for row in rows if row.base_guid is not None}
    if not last_seen:
        return {}
    return last_seen | {guid: entry.dn for guid, entry in client_of(call).read_many(last_seen, ("objectGUID",)).items()}


def saved_search(row: SavedFilter) -> Search:
    """The search of the filter's kind. Its name includes the revision, so cursors end when the filter is changed."""
    return replace(SEARCHES[resource_of(row.kind)], name=f"saved filter {row.id} revision {row.revision}")


def saved_query(row: SavedFilter, page: PageQuery, *, sort: str | None) -> SearchQuery:
    """The parameters that run the same search by hand."""
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
def _pointing_to(member: str) -> Iterator[None]:
    """Make errors about a search's parameter point to a member of the body instead."""
    try:
        yield
    except GatewayError as refusal:
        refusal.errors = tuple(replace(error, parameter=None, pointer=pointer(member)) for error in refusal.errors)
        raise


_SET_BY_OTHER_OPERATIONS = frozenset({"member", "memberof", "useraccountcontrol", "distinguishedname", "cn", "name"})


def visible_templates(call: Call) -> QuerySet[ChangeTemplate]:
    """The templates of the call's directory, without those whose values name objects outside the caller's scopes."""
    assert call.directory is not None
    rows = ChangeTemplate.objects.filter(connection_id=call.directory.id)
    if not call.scopes:
        return rows
    visibility = visibility_of(call)
    return rows.filter(pk__in=[row.pk for row in rows if _are_values_visible(row.attributes, visibility)])


def _are_values_visible(attributes: Mapping[str, Sequence[str]], visibility: Visibility) -> bool:
    return all(
        sole_placeholder(value) is not None or visibility.can_see_value(name, value)
        for name, values in attributes.items()
        if visibility.is_reference(name)
        for value in values
    )


def find_template(call: Call, id: UUID) -> ChangeTemplate:
    """A template of the call's directory; raises NotFound."""
    return own_rows.find(visible_templates(call), id=id)


def find_template_parent(call: Call, text: str) -> Entry:
    """The container that `parent` of the body names; raises InvalidRequest, ObjectNotFound or Forbidden."""
    return find_parent(call, parse_reference(text, pointer="#/parent"))


def find_template_groups(call: Call, member: str, texts: Sequence[str]) -> list[Entry]:
    """The groups that a member of the body names, each once; raises InvalidRequest, ObjectNotFound or Forbidden."""
    found: dict[UUID, Entry] = {}
    for index, text in enumerate(texts):
        where = pointer(member, str(index))
        reference = parse_reference(text, pointer=where)
        try:
            group = find_object(call, reference, kinds=RESOURCES["groups"].kinds)
        except errors.ObjectNotFound:
            raise errors.ObjectNotFound.naming(message("there is no group {text}", text=text), pointer=where) from None
        found.setdefault(group.guid, group)
    return list(found.values())


def require_template_attributes(call: Call, attributes: Mapping[str, Sequence[str]]) -> None:
    """Refuse attributes that no template can set, and values that name objects outside the caller's scopes.

    Raises AttributeUnknown, AttributeNotReadable, InvalidRequest or Forbidden.
    """
    schema = client_of(call).schema
    known: set[str] = set()
    for name in attributes:
        where = pointer("attributes", name)
        if schema.attribute(name) is None:
            raise errors.AttributeUnknown.naming(
                message("{name} is no attribute of the directory's schema", name=name), pointer=where
            )
        if is_credential(name) or name.lower() in _SET_BY_OTHER_OPERATIONS:
            raise InvalidRequest.naming(
                message("{name} is nothing that a template could set", name=name), pointer=where
            )
        if name.lower() in known:
            raise InvalidRequest.naming(message("{name} is there twice", name=name), pointer=where)
        known.add(name.lower())
    select(schema, list(attributes), RESOURCES["users"].kinds, confidential=may_see_confidential(call))
    if call.scopes and not _are_values_visible(attributes, visibility_of(call)):
        raise Forbidden


def template_object_names(call: Call, rows: Iterable[ChangeTemplate]) -> dict[UUID, str]:
    """The names of the templates' containers and groups that exist and that the caller may see, by objectGUID."""
    if not call.may("directory.read_object"):
        return {}
    wanted = {
        guid
        for row in rows
        for guid in (row.parent_guid, *(UUID(group["id"]) for group in (*row.joins, *row.leaves)))
        if guid is not None
    }
    if not wanted:
        return {}
    bases = scope_bases(call)
    found = client_of(call).read_many(wanted, ("objectGUID",))
    return {guid: entry.dn for guid, entry in found.items() if bases is None or is_within_any(entry.dn, bases)}
