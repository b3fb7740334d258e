"""`expand=manager`: records that show whom their manager names, with one look-up for all of them."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final, Literal, cast

from pydantic import Field

from active_directory import Entry, Equals, fold_case
from core.call import Call
from directory.lookup.access import Reference, client_of, is_within_any
from directory.lookup.visibility import may_see_confidential
from directory.queries.reading import read_record
from directory.queries.searches.definitions import Search, SearchQuery
from directory.shapes.inputs import ByDnQuery, ReadQuery
from directory.shapes.kinds import Kind, kind_of_entry
from directory.shapes.record import DirectoryObject, Manager, readable_name, unreadable_reason

MANAGER: Final = "manager"
_TEXTS: Final = ("name", "displayName", "sAMAccountName", "userPrincipalName", "mail")

Expand = Annotated[
    Literal["manager"] | None, Field(description="Show whom `manager` names, as the member `manager` of the record.")
]


class SearchUsers(SearchQuery):
    expand: Expand = None


class ReadUser(ReadQuery):
    expand: Expand = None


class UserByDn(ByDnQuery, ReadUser):
    """How to look a user up by distinguished name."""


def with_managers(call: Call, search: Search) -> Search:
    """The search with managers in its records. Raises AttributeNotReadable if the caller may not read `manager`."""
    require_managers(call)
    return replace(
        search,
        needs=(*search.needs, MANAGER),
        extend=lambda _, seen: {MANAGER: seen.text(MANAGER)},
        complete=partial(add_managers, call),
    )


def require_managers(call: Call) -> None:
    """Raise AttributeNotReadable if the caller may not read `manager`."""
    readable_name(client_of(call).schema, MANAGER, parameter="expand", confidential=may_see_confidential(call))


def add_managers(call: Call, records: Sequence[Any]) -> None:
    """Replace the names that the member `manager` has, as the caller may see them, by the objects so named."""
    client, names = client_of(call), {record[MANAGER] for record in records if record[MANAGER]}
    confidential = may_see_confidential(call)
    readable = [
        name
        for name in _TEXTS
        if unreadable_reason(name, client.schema.attribute(name), confidential=confidential) is None
    ]
    wanted = ("objectGUID", "objectClass", *readable)
    found = {
        fold_case(entry.dn): _manager(entry)
        for entry in client.find_any((Equals("distinguishedName", name) for name in sorted(names)), wanted)
        if "objectGUID" in entry and is_within_any(entry.dn, (client.settings.base_dn,))
    }
    for record in records:
        record[MANAGER] = found.get(fold_case(record[MANAGER] or ""))


def read_with_manager(
    call: Call, reference: Reference, *, kinds: Collection[Kind], attributes: Collection[str] | None
) -> DirectoryObject:
    """The record of one object with its manager; raises as `read_record` and `require_managers`."""

    def extend(record: DirectoryObject, seen: Entry) -> None:
        expanded = cast(dict[str, Any], record)
        expanded[MANAGER] = seen.text(MANAGER)
        add_managers(call, [expanded])

    require_managers(call)
    return read_record(call, reference, kinds=kinds, attributes=attributes, also=(MANAGER,), extend=extend)


def _manager(entry: Entry) -> Manager:
    return {
        "id": str(entry.guid),
        "kind": kind_of_entry(entry),
        "distinguishedName": entry.dn,
        "name": entry.text("name"),
        "displayName": entry.text("displayName"),
        "samAccountName": entry.text("sAMAccountName"),
        "userPrincipalName": entry.text("userPrincipalName"),
        "mail": entry.text("mail"),
    }
