"""How many changes of who is protected the gateway has made, as far as this process has heard of them.

`directory.protection.state` shows nothing that it found out before the last of them.
"""

from threading import Lock
from weakref import WeakKeyDictionary

from directory.ldap import Client

_lock = Lock()
_heard_of: WeakKeyDictionary[Client, int] = WeakKeyDictionary()


def show_nothing_before(client: Client, changes: int) -> None:
    """Let no state be shown that is older than that many changes of it by the gateway itself."""
    if changes > _heard_of.get(client, 0):
        with _lock:
            _heard_of[client] = max(changes, _heard_of.get(client, 0))


def changes_heard_of(client: Client) -> int:
    """The number that a state has to be as new as to be shown."""
    return _heard_of.get(client, 0)
