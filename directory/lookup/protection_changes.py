"""How many changes of who is protected the gateway has made, as far as this process has heard of them.

`directory.protection.state` shows nothing that it found out before the last of them. Those of this process count from
the moment they are made, those of others when it hears of them, with the next request.
"""

from threading import Lock
from weakref import WeakKeyDictionary

from active_directory import Client

_lock = Lock()
_heard_of: WeakKeyDictionary[Client, int] = WeakKeyDictionary()
_made_here: WeakKeyDictionary[Client, int] = WeakKeyDictionary()


def show_nothing_before(client: Client, changes: int) -> None:
    """Let no state be shown that is older than that many changes of it by the gateway itself."""
    if changes > _heard_of.get(client, 0):
        with _lock:
            _heard_of[client] = max(changes, _heard_of.get(client, 0))


def show_nothing_before_now(client: Client) -> None:
    """The same for a change that was made this moment, which other processes have yet to hear of."""
    with _lock:
        _made_here[client] = _made_here.get(client, 0) + 1


def changes_heard_of(client: Client) -> tuple[int, int]:
    """What stays the same as long as nothing is heard of that makes what is known of the protected objects outdated."""
    return _heard_of.get(client, 0), _made_here.get(client, 0)
