"""Counting the matches of a search: all of them, and by the values of an attribute, by unit or by account state."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from active_directory import AttributeType, Client, Entry, decode, value_type
from core.call import Call
from core.errors import InvalidRequest
from core.shapes import Query
from core.text.messages import message
from directory.lookup.access import client_of, is_within_any, scope_bases
from directory.lookup.visibility import may_see_confidential, parent_of
from directory.queries.account_searches import AccountState, search_by_state
from directory.queries.searches.definitions import SEARCHES, Search, SearchQuery
from directory.queries.searches.filters import FILTER, require_searchable
from directory.queries.searches.search import visible_matches
from directory.shapes.kinds import RESOURCES
from directory.shapes.record import readable_name

UNIT, STATE = "unit", "state"
MAX_VALUES: Final = 200
_DAYS: Final = 30

CountedKind = Literal["users", "groups", "computers", "organization-units", "contacts", "objects"]


class CountQuery(Query):
    """Which objects to count, and by what."""

    kind: CountedKind
    filter: Annotated[str | None, Field(description=FILTER)] = None
    base: Annotated[str | None, Field(description="UUID or distinguished name; default the directory's base.")] = None
    scope: Annotated[Literal["base", "one-level", "subtree"], Field(description="How deep below the base.")] = "subtree"
    by: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=256,
            description="An attribute, or `unit` (what holds the object), or `state` of accounts; those with a number"
            " of days with 30.",
        ),
    ] = None


class ValueCount(TypedDict):
    """`value` is null for objects that have none, or none that the caller may see."""

    value: str | None
    count: int


class Counts(TypedDict):
    """How many objects there are, and how many have each value, the most frequent first.

    An object with several values, or in several states, counts for each. `moreValues` says how many values are not
    listed after the first 200.
    """

    total: int
    values: list[ValueCount]
    moreValues: int


def count_objects(call: Call, query: CountQuery) -> Counts:
    """Count what a search finds; raises as `run_search`, and InvalidRequest for what cannot be counted by."""
    client, search = client_of(call), SEARCHES[query.kind]
    if query.by == STATE:
        states = _count_states(call, client, query)
        return {"total": sum(1 for _ in _matches(call, search, query)), "values": states, "moreValues": 0}
    attribute = None if query.by in (None, UNIT) else _countable(call, client, query.by)
    bases = scope_bases(call)
    counted: Counter[str | None] = Counter()
    spelled: dict[str | None, str | None] = {None: None}
    total = 0
    for entry in _matches(call, search, query, sort=attribute.name if attribute else None):
        total += 1
        found = _parent(entry, bases) if query.by == UNIT else _values(attribute, entry)
        values: list[str | None] = [*found] or [None]
        for value in values:
            key = None if value is None else value.casefold()  # the directory ignores case in almost all values
            spelled.setdefault(key, value)
            counted[key] += 1
    ordered = sorted(counted.items(), key=lambda item: (-item[1], item[0] is None, item[0] or ""))
    listed = ordered[:MAX_VALUES] if query.by is not None else []
    return {
        "total": total,
        "values": [{"value": spelled[key], "count": number} for key, number in listed],
        "moreValues": len(ordered) - len(listed) if query.by is not None else 0,
    }


def _matches(call: Call, search: Search, query: CountQuery, *, sort: str | None = None) -> Iterator[Entry]:
    given = {"filter": query.filter, "base": query.base, "scope": query.scope, "sort": sort}
    return visible_matches(call, search, SearchQuery.model_validate(given))


def _countable(call: Call, client: Client, name: str | None) -> AttributeType:
    schema = client.schema
    readable = readable_name(schema, name or "", parameter="by", confidential=may_see_confidential(call))
    require_searchable([readable], parameter="by")
    attribute = schema.attributes[readable.lower()]
    if value_type(attribute) == "binary":
        raise InvalidRequest.naming(message("{name} has binary values: nothing to count by", name=name), parameter="by")
    return attribute


def _values(attribute: AttributeType | None, entry: Entry) -> list[str]:
    return [] if attribute is None else list(dict.fromkeys(decode(attribute, entry.values(attribute.name))))


def _parent(entry: Entry, bases: tuple[str, ...] | None) -> list[str]:
    """What holds the object, unless it lies outside the caller's scopes."""
    parent = parent_of(entry.dn)
    return [parent] if bases is None or is_within_any(parent, bases) else []


def _count_states(call: Call, client: Client, query: CountQuery) -> list[ValueCount]:
    kinds = RESOURCES[query.kind].kinds
    if not RESOURCES[query.kind].has_account:
        raise InvalidRequest.naming(message("only accounts have a state"), parameter="by")
    searches = ((state, search_by_state(client, state, kinds=kinds, days=_DAYS)) for state in AccountState)
    return [
        {"value": state.value, "count": sum(1 for _ in _matches(call, search, query))} for state, search in searches
    ]
