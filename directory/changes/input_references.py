"""The references in the body of a change that waits: resolved when it is held, and named anew when it is applied.

Between the two, objects are renamed, and what has a name then need not be what had it. So each name in the body is
kept with the objectGUID of the object it meant; applied, the body gets the names these objects have by then.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from active_directory import Client, DistinguishedName, Schema, servers_asked, with_names
from core.shapes import parse_guid
from directory.changes.references import parsed, resolve
from directory.lookup.replication import require_all_absent

PARENT: Final = "parent"
"""The member of bodies that names an object: by UUID, which is an identity already, or by distinguished name."""
UPDATES: Final = ("replace", "add", "remove")


class ReferenceChanged(Exception):
    """What a kept body refers to is gone, or a name that meant nothing means something now."""


def resolve_input(client: Client, document: Any) -> dict[str, str | None]:
    """The objectGUIDs that the names in a body mean now, by name as spelled there; null for one that means nothing."""
    spelled = {name: parsed(name) for name in _names(client.schema, document)}
    found = resolve(client, {name for name in spelled.values() if name is not None})
    resolved = {text: None if name is None else found.get(name) for text, name in spelled.items()}
    return {text: None if guid is None else str(guid) for text, guid in resolved.items()}


def rename_input(client: Client, document: Any, kept: Mapping[str, str | None]) -> Any:
    """The body with the names that the objects meant have now. Raises ReferenceChanged.

    `kept` is what `resolve_input` gave when it was held. A name that is not in it was not approved.
    """
    names = set(_names(client.schema, document))
    if not names:
        return document
    if not names <= kept.keys():
        raise ReferenceChanged
    meant = {name: UUID(guid) for name in names if (guid := kept[name]) is not None}
    with servers_asked():
        entries = client.read_many(meant.values(), ("objectGUID",))
        require_all_absent(client, [guid for guid in meant.values() if guid not in entries])
    unresolved = {found for name in names - meant.keys() if (found := parsed(name)) is not None}
    if not entries.keys() >= set(meant.values()) or resolve(client, unresolved):
        raise ReferenceChanged

    def present_name(name: str) -> str:
        if name not in meant:
            return name
        dn = entries[meant[name]].dn
        return name if DistinguishedName.parse(dn) == parsed(name) else dn

    return _renamed(client.schema, document, present_name)


def _names(schema: Schema, document: Any) -> Iterator[str]:
    seen: list[str] = []

    def note(name: str) -> str:
        seen.append(name)
        return name

    _renamed(schema, document, note)
    yield from dict.fromkeys(seen)


def _renamed(schema: Schema, document: Any, renamed: Callable[[str], str]) -> Any:
    """A copy of a body with another name in the place of each one in it."""
    if not isinstance(document, dict):
        return document
    copy = dict(document)
    parent = document.get(PARENT)
    if isinstance(parent, str) and parse_guid(parent) is None:
        copy[PARENT] = renamed(parent)
    for update in UPDATES:
        if isinstance(document.get(update), dict):  # the lists of a change of members hold identities
            copy[update] = {
                name: _renamed_values(schema, name, values, renamed) for name, values in document[update].items()
            }
    return copy


def _renamed_values(schema: Schema, name: str, values: Any, renamed: Callable[[str], str]) -> Any:
    attribute = schema.attribute(name)
    if isinstance(values, str):
        return with_names(attribute, values, renamed)
    if isinstance(values, list):
        return [with_names(attribute, value, renamed) if isinstance(value, str) else value for value in values]
    return values
