"""Values that are found once for each directory, and kept as long as its client."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from active_directory import Client

_Found = TypeVar("_Found")


def kept_by_client(find: Callable[[Client], _Found]) -> Callable[[Client], _Found]:
    """Make a function find its value once for each client. If several threads ask at once, the first answer counts."""
    known: WeakKeyDictionary[Client, _Found] = WeakKeyDictionary()

    @wraps(find)
    def get(client: Client) -> _Found:
        if client not in known:
            known.setdefault(client, find(client))
        return known[client]

    return get
