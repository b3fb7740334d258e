"""The scopes of a role: from what people write (a distinguished name, an objectGUID) to what is kept."""

from collections.abc import Sequence
from uuid import UUID

from directory import errors as directory_errors
from directory.connection import get_client
from directory.ldap import DistinguishedName, InvalidValue
from directory.models import DirectoryConnection
from gateway.core.shapes import parse_guid


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
        if entry is not None:
            return {"guid": str(entry.guid), "distinguishedName": entry.dn, "directoryId": str(connection.id)}
    if unreachable is not None:
        raise unreachable
    raise ScopeNotFound(position, text)
