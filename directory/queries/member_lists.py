"""Who belongs to a group, and what somebody belongs to: searches, so paged, sorted and confined like any other.

Somebody's primary group is a membership that neither `member` nor `memberOf` shows ([MS-ADA2] 2.43); it counts here.
"""

from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

from pydantic import Field

from active_directory import WELL_KNOWN_SIDS, And, AnyGuid, Entry, Equals, Filter, Or, sid_to_text
from core.call import Call
from core.paging import Page
from core.shapes import Flag
from directory.groups.ancestry import ABOVE_ATTRIBUTES, NESTING_ATTRIBUTES, groups_above
from directory.groups.nesting import groups_below, is_foreign, relative_id
from directory.lookup.access import client_of, find_object
from directory.queries.searches.definitions import Search
from directory.queries.searches.search import SearchQuery, run_search
from directory.shapes.kinds import RESOURCES, Kind
from directory.shapes.record import DirectoryObject

# Computed by Windows, through the trust for an account of another domain ([MS-ADTS] 3.1.1.4.5.18); not by Samba.
_PRINCIPAL_NAME = "msDS-PrincipalName"
_FEW_GROUPS = 2
"""Samba compares `memberOf` with each of more groups for every object: a search of those is expensive."""


class MembershipQuery(SearchQuery):
    """A search among members or groups."""

    nested: Annotated[Flag, Field(description="Those through nested groups too, however deep, each once.")] = False


def list_members(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """Members of a group of any kind, those who have it for their primary group included.

    Raises as `find_object` and `run_search`.
    """
    client = client_of(call)
    group = find_object(call, id, kinds=RESOURCES["groups"].kinds, attributes=NESTING_ATTRIBUTES)
    groups = groups_below(client, group) if query.nested else [group]
    search = Search(
        name=f"members of {group.guid}",
        kinds=frozenset(Kind),
        condition=Or(*(condition for holder in groups for condition in _is_member(holder))),
        needs=("objectClass", "objectSid", _PRINCIPAL_NAME),
        extend=_name_of_foreigner,
        expensive=len(groups) > _FEW_GROUPS,
    )
    return run_search(call, search, query)


def _is_member(group: Entry) -> Iterator[Filter]:
    yield Equals("memberOf", group.dn)
    number = relative_id(group)
    if number is not None:
        yield Equals("primaryGroupID", number)


def _name_of_foreigner(entry: Entry, _: Entry) -> dict[str, str]:
    """What is shown instead of the SID that a foreign security principal is named by, where anybody knows it."""
    if not is_foreign(entry):
        return {}
    sids = entry.values("objectSid")
    known = WELL_KNOWN_SIDS.get(sid_to_text(sids[0])) if sids else None
    name = known or entry.text(_PRINCIPAL_NAME)
    return {"name": name} if name else {}


def list_groups(call: Call, *, resource: str, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """Groups that an account or a group belongs to, the primary group included; raises as `list_members`.

    Without those that the gateway's account may not read.
    """
    entry = find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=ABOVE_ATTRIBUTES)
    groups = [group for group, way in groups_above(client_of(call), entry) if query.nested or not way]
    search = Search(
        name=f"groups of {entry.guid}",
        kinds=RESOURCES["groups"].kinds,
        condition=And(RESOURCES["groups"].condition, AnyGuid([group.guid.bytes_le for group in groups])),
    )
    return run_search(call, search, query)
