"""The security identifier of a client's domain."""

import threading
from weakref import WeakKeyDictionary

from active_directory import Client, ProtocolError, sid_to_text

_known: WeakKeyDictionary[Client, str] = WeakKeyDictionary()
_lock = threading.Lock()


def domain_sid(client: Client) -> str:
    """The SID of the client's domain; it never changes."""
    with _lock:
        known = _known.get(client)
    if known is None:
        values = client.read(client.default_naming_context, ("objectSid",)).values("objectSid")
        if not values:
            raise ProtocolError("The domain's own SID cannot be read", attribute="objectSid")
        known = sid_to_text(values[0])
        with _lock:
            _known[client] = known
    return known
