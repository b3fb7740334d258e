"""The members of a group and the groups of an object, as searches: paged, sorted and confined like any other.

The primary group counts as a membership here, although neither `member` nor `memberOf` shows it ([MS-ADA2] 2.43).
"""

from typing import Annotated
from uuid import UUID

from pydantic import Field

from active_directory import ANYTHING, WELL_KNOWN_SIDS, And, AnyGuid, Entry, is_samba, sid_to_text
from core.call import Call
from core.paging import Page
from core.shapes import Flag
from directory.groups import (
    MEMBERSHIP_ATTRIBUTES,
    NESTING_ATTRIBUTES,
    groups_above,
    is_foreign_principal,
    nested_groups,
)
from directory.lookup.access import client_of, find_object
from directory.queries.searches.definitions import Search, SearchQuery
from directory.queries.searches.listed import Listed, members_of
from directory.queries.searches.search import run_search
from directory.shapes.kinds import RESOURCES, Kind
from directory.shapes.record import DirectoryObject

# Computed by Windows, through the trust for an account of another domain ([MS-ADTS] 3.1.1.4.5.18); not by Samba.
_PRINCIPAL_NAME = "msDS-PrincipalName"


class MembershipQuery(SearchQuery):
    """A search among members or groups."""

    nested: Annotated[Flag, Field(description="Those through nested groups too, however deep, each once.")] = False


def list_members(call: Call, *, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """The members of a group, of any kind and including those whose primary group it is.

    Raises as `find_object` and `run_search`.
    """
    group = find_object(call, id, kinds=RESOURCES["groups"].kinds, attributes=NESTING_ATTRIBUTES)
    client = client_of(call)

    def list_them() -> Listed:
        groups = nested_groups(client, group, has_index=not is_samba(client)) if query.nested else [group]
        return members_of(client, groups)

    search = Search(
        name=f"{'nested ' if query.nested else ''}members of {group.guid}",
        kinds=frozenset(Kind),
        condition=ANYTHING,
        needs=("objectClass", "objectSid", _PRINCIPAL_NAME),
        extend=_foreign_principal_name,
        listed=list_them,
    )
    return run_search(call, search, query)


def _foreign_principal_name(entry: Entry, _: Entry) -> dict[str, str]:
    """The real name of a foreign security principal, whose own name is only its SID; empty where it is not known."""
    if not is_foreign_principal(entry):
        return {}
    sids = entry.values("objectSid")
    known = WELL_KNOWN_SIDS.get(sid_to_text(sids[0])) if sids else None
    name = known or entry.text(_PRINCIPAL_NAME)
    return {"name": name} if name else {}


def list_groups(call: Call, *, resource: str, id: UUID, query: MembershipQuery) -> Page[DirectoryObject]:
    """The groups that an object belongs to, including its primary group; raises as `list_members`.

    Without the groups that the gateway's account may not read.
    """
    entry = find_object(call, id, kinds=RESOURCES[resource].kinds, attributes=MEMBERSHIP_ATTRIBUTES)
    groups = [group for group, way in groups_above(client_of(call), entry) if query.nested or not way]
    search = Search(
        name=f"groups of {entry.guid}",
        kinds=RESOURCES["groups"].kinds,
        condition=And(RESOURCES["groups"].condition, AnyGuid([group.guid.bytes_le for group in groups])),
    )
    return run_search(call, search, query)
