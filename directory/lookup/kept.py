"""What is worked out of a directory once and kept as long as its client. What may change is checked by who keeps it."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from active_directory import Client

_Found = TypeVar("_Found")


def kept_by_client(find: Callable[[Client], _Found]) -> Callable[[Client], _Found]:
    """The same function, which asks once for each client. Of threads that ask at once the first answer counts."""
    known: WeakKeyDictionary[Client, _Found] = WeakKeyDictionary()

    @wraps(find)
    def get(client: Client) -> _Found:
        if client not in known:
            known.setdefault(client, find(client))
        return known[client]

    return get
