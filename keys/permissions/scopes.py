"""The scopes of a role: from what people write (a distinguished name, an objectGUID) to what is kept, and back to the
names of now.
"""

from collections.abc import Mapping, Sequence
from typing import Literal
from uuid import UUID

from typing_extensions import TypedDict

from active_directory import DistinguishedName, Entry, InvalidValue, LdapError
from core.shapes import Id, parse_guid
from directory import errors as directory_errors
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection


class ScopeNotFound(Exception):
    """No enabled directory has such an object. `position` is its place in the list, counted from 0."""

    def __init__(self, position: int, text: str) -> None:
        self.position = position
        super().__init__(f"{text} is in none of the enabled directories")


def resolve(texts: Sequence[str]) -> list[dict[str, str]]:
    """What a role keeps of its scopes; raises ScopeNotFound, or Unavailable when a directory could not be asked."""
    scopes = [_resolve_one(position, text) for position, text in enumerate(texts)]
    return list({(scope["directoryId"], scope["guid"]): scope for scope in scopes}.values())


def _resolve_one(position: int, text: str) -> dict[str, str]:
    reference: UUID | str | None = parse_guid(text.strip())
    if reference is None:
        try:
            reference = str(DistinguishedName.parse(text.strip()))
        except InvalidValue:
            reference = None
    if not reference:
        raise ScopeNotFound(position, text)
    unreachable: directory_errors.Unavailable | None = None
    for connection in DirectoryConnection.objects.filter(enabled=True).order_by("name"):
        try:
            with directory_errors.translated():
                entry = get_client(connection.id).find(reference, ("objectGUID",))
        except directory_errors.Unavailable as error:
            unreachable = error
            continue
        except directory_errors.DirectoryRejected:  # what is no name to it, such as `OU=`
            continue
        if entry is not None:
            return {"guid": str(entry.guid), "distinguishedName": entry.dn, "directoryId": str(connection.id)}
    if unreachable is not None:
        raise unreachable
    raise ScopeNotFound(position, text)


class ScopeNow(TypedDict):
    """A scope with the name it has now. `state` is `found`, `gone` (it holds nothing any more), or `unknown`, when its
    directory cannot be asked; the name is then the last one known.
    """

    id: Id
    distinguishedName: str
    directory: Id
    directoryName: str | None
    state: Literal["found", "gone", "unknown"]


def look_up(scopes: Sequence[Mapping[str, str]]) -> list[ScopeNow]:
    """The scopes of a role as they are now, one search for each directory."""
    connections = {str(row.id): row for row in DirectoryConnection.objects.all()} if scopes else {}
    found = {directory: _find_all(row, scopes) for directory, row in connections.items()}
    return [_now(scope, connections.get(scope["directoryId"]), found.get(scope["directoryId"])) for scope in scopes]


def _find_all(connection: DirectoryConnection, scopes: Sequence[Mapping[str, str]]) -> dict[UUID, Entry] | None:
    """Those in one directory that exist, by objectGUID; None when it is disabled or does not answer."""
    inside = [UUID(scope["guid"]) for scope in scopes if scope["directoryId"] == str(connection.id)]
    if not connection.enabled:
        return None
    try:
        return get_client(connection.id).read_many(inside, ("objectGUID",))
    except LdapError:
        return None


def _now(
    scope: Mapping[str, str], connection: DirectoryConnection | None, found: Mapping[UUID, Entry] | None
) -> ScopeNow:
    entry = None if found is None else found.get(UUID(scope["guid"]))
    return {
        "id": scope["guid"],
        "distinguishedName": scope["distinguishedName"] if entry is None else entry.dn,
        "directory": scope["directoryId"],
        "directoryName": None if connection is None else connection.name,
        "state": "unknown" if found is None else "gone" if entry is None else "found",
    }
