"""How many changes of who is protected the gateway has made, as far as this process has heard of them.

`directory.protection.state` shows nothing that it found out before the last of them. Those of this process count from
the moment they are made, those of others when it hears of them, with the next request.
"""

from dataclasses import dataclass
from threading import Lock

from active_directory import Client
from directory.lookup.kept import kept_by_client

_lock = Lock()


@dataclass
class _Changes:
    heard_of: int = 0
    made_here: int = 0


_changes_of = kept_by_client(lambda _: _Changes())


def show_nothing_before(client: Client, changes: int) -> None:
    """Let no state be shown that is older than that many changes of it by the gateway itself."""
    known = _changes_of(client)
    if changes > known.heard_of:
        with _lock:
            known.heard_of = max(changes, known.heard_of)


def show_nothing_before_now(client: Client) -> None:
    """The same for a change that was made this moment, which other processes have yet to hear of."""
    known = _changes_of(client)
    with _lock:
        known.made_here += 1


def changes_heard_of(client: Client) -> tuple[int, int]:
    """What stays the same as long as nothing is heard of that makes what is known of the protected objects outdated."""
    known = _changes_of(client)
    return known.heard_of, known.made_here
