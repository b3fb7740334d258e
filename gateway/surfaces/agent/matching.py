"""What a call is about where that is more than one id: members of a group by search, and changes to undo.

Members are found while the change is validated, so whoever approves it reads their names, and not the filter.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from core.call import Call
from core.errors import GatewayError, UnknownMember, invalid_member
from core.operation import Operation, find_operation
from core.shapes import parse_guid
from directory.shapes.inputs import MAX_VALUES
from directory.shapes.kinds import RESOURCES
from gateway import pipeline

MATCHING = {"addMatching": "add", "removeMatching": "remove"}
"""The arguments that hold a search, each with the list that its matches join."""

SEARCHED_BY = ("kind", "q", "filter", "base", "scope")


@dataclass(frozen=True, slots=True)
class Matching:
    """The search of one argument, called `name`."""

    name: str
    operation: Operation
    call: Call
    query: Mapping[str, str]

    def find(self) -> list[str]:
        """The ids of all matches, in an order that the next call finds again; raises GatewayError."""
        inputs = pipeline.Inputs(arguments={}, query=partial(dict, self.query), document=dict)
        with _within(self.name):
            found = pipeline.run(self.operation, self.call, inputs).body
        if not found["items"]:
            raise invalid_member(self.name, "finds nothing")
        if found["nextCursor"] is not None:
            raise invalid_member(self.name, f"finds more than {MAX_VALUES} objects, the most that one call changes")
        return sorted(item["id"] for item in found["items"])


def read_matching(name: str, given: Any, call: Call) -> Matching:
    """The search that an argument holds; raises InvalidRequest and UnknownMember."""
    if not isinstance(given, dict):
        raise invalid_member(name, f"must be an object with {', '.join(SEARCHED_BY)}")
    for member, value in given.items():
        place = f"{name}/{member.replace('~', '~0').replace('/', '~1')}"
        if member not in SEARCHED_BY:
            raise UnknownMember.naming("is not known here", pointer=f"#/{place}", subject=f"#/{place}")
        if not isinstance(value, str):
            raise invalid_member(place, "must be a text")
    if (kind := given.get("kind")) not in RESOURCES:
        raise invalid_member(f"{name}/kind", f"must be one of {', '.join(RESOURCES)}")
    if not given.keys() - {"kind", "scope"}:
        raise invalid_member(name, "needs q, filter or base: it would find everything")
    query = {member: value for member, value in given.items() if member != "kind"}
    query |= {"pageSize": str(MAX_VALUES), "attributes": "name"}
    return Matching(name, find_operation(f"{kind}.search"), call, query)


def with_matching(document: Callable[[], Any], searches: tuple[Matching, ...]) -> Any:
    """The body of the change, whose lists hold the matches too."""
    body = dict(document())
    for search in searches:
        listed = body.get(member := MATCHING[search.name], [])
        if isinstance(listed, list):  # otherwise the operation refuses it
            body[member] = [*listed, *search.find()]
    return body


MAX_UNDONE = 50


def read_undone(name: str, texts: list[str]) -> tuple[dict[str, str], ...]:
    """The changes to undo, without doubles and the newest first: one may rest on another that came before it."""
    ids = {parse_guid(text) for text in texts}
    if not ids or None in ids or len(ids) > MAX_UNDONE:
        raise invalid_member(name, f"must be ids of changes, at most {MAX_UNDONE}")
    return tuple({"id": str(id)} for id in sorted(filter(None, ids), reverse=True))  # ids begin with the time


@contextmanager
def _within(name: str) -> Iterator[None]:
    """Let errors name the members of the argument, not the parameters of its search."""
    try:
        yield
    except GatewayError as error:
        error.errors = tuple(
            replace(
                each, pointer=f"#/{name}/{each.parameter or (each.pointer or '').removeprefix('#/')}", parameter=None
            )
            for each in error.errors
        )
        raise
