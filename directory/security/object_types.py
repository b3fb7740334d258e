"""The names of what rights are confined to, from a directory's schema and configuration, kept as long as its schema."""

from weakref import WeakKeyDictionary

from active_directory import (
    CONTROL_ACCESS_RIGHT_ATTRIBUTES,
    CONTROL_ACCESS_RIGHT_CLASS,
    Client,
    Equals,
    ObjectTypes,
    Scope,
)

_known: WeakKeyDictionary[Client, ObjectTypes] = WeakKeyDictionary()


def object_types(client: Client) -> ObjectTypes:
    """What object types stand for in this directory; read again when its schema was."""
    known, schema = _known.get(client), client.schema
    if known is None or known.schema is not schema:
        entries = client.search(
            f"CN=Extended-Rights,{client.configuration_naming_context}",  # [MS-ADTS] 6.1.1.2.7
            Scope.ONE_LEVEL,
            Equals("objectClass", CONTROL_ACCESS_RIGHT_CLASS),
            CONTROL_ACCESS_RIGHT_ATTRIBUTES,
        )
        known = _known[client] = ObjectTypes.from_entries(schema, entries)
    return known
