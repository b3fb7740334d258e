"""The names in a container, kept by this process: asked again, the directory tells only what has changed in it since.

A domain controller counts its changes (`uSNChanged`), each one its own. What is kept is of one of them, and read anew
when another one answers, when nothing known is left there, and every few minutes. It is asked once a second at most:
Samba looks at every object of the container. An object that has gone since may still be among those kept.
"""

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from active_directory import ANYTHING, Client, Entry, GreaterOrEqual, Scope
from core.text.look_alikes import skeletons

NAMES = ("name", "sAMAccountName", "displayName")
_AT_ONCE = 1000
"""Objects of one search; of a larger container not all are known."""
_KEPT = 5000
_CONTAINERS = 16
_SECONDS = 300.0
_FRESH_SECONDS = 1.0
_OVERLAP = 20
"""Changes that may become visible after one that was counted later."""


@dataclass(frozen=True, slots=True)
class Named:
    """An object by its names; `accounts` are those that are account names, `forms` what their look-alikes share."""

    id: UUID
    dn: str
    names: tuple[str, ...]
    accounts: tuple[str, ...]
    forms: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Kept:
    server: str | None
    counted: int
    read_at: float
    asked_at: float
    objects: dict[UUID, Named]


_kept: dict[tuple[UUID, str], _Kept] = {}
_lock = threading.Lock()


def as_named(entry: Entry) -> Named:
    """An entry that was read with `objectGUID` and the attributes in `NAMES`."""
    names = tuple(dict.fromkeys(name for attribute in NAMES for name in entry.texts(attribute)))
    return Named(entry.guid, entry.dn, names, tuple(entry.texts("sAMAccountName")), forms_of(names))


def forms_of(names: Collection[str]) -> frozenset[tuple[str, str]]:
    """The forms that names which look like one of these share with it."""
    return frozenset().union(*map(skeletons, names))


def objects_in(client: Client, directory: UUID, container: str) -> Collection[Named]:
    """The objects directly in a container. Those that have gone lately are among them, with the names they had."""
    key = directory, container.lower()
    before, moment = _kept.get(key), time.monotonic()
    if before is not None and moment - before.asked_at < _FRESH_SECONDS:
        return before.objects.values()
    if before is not None and moment - before.read_at > _SECONDS:
        before = None
    now = (before and _read(client, container, before)) or _read(client, container, None)
    if now is None:
        return ()
    if now.counted and len(now.objects) <= _KEPT:
        with _lock:
            _kept.pop(key, None)  # the last one used is the last one
            _kept[key] = now
            while len(_kept) > _CONTAINERS:
                del _kept[next(iter(_kept))]
    return now.objects.values()


def _read(client: Client, container: str, before: _Kept | None) -> _Kept | None:
    """What was known before with what has changed since; None where that cannot be told, or the container is empty."""
    moment = time.monotonic()
    condition = ANYTHING if before is None else GreaterOrEqual("uSNChanged", str(before.counted - _OVERLAP))
    attributes = ("objectGUID", "uSNChanged", *NAMES)
    entries = list(client.search(container, Scope.ONE_LEVEL, condition, attributes=attributes, limit=_AT_ONCE))
    servers = {entry.server for entry in entries} | ({before.server} if before is not None else set())
    if not entries or len(servers) != 1:
        return None
    counts = [int(count) for entry in entries for count in entry.texts("uSNChanged")]
    return _Kept(
        server=servers.pop(),
        counted=max(counts) if len(counts) == len(entries) else 0,  # who may not read it is told all each time
        read_at=moment if before is None else before.read_at,
        asked_at=moment,
        objects=({} if before is None else before.objects) | {entry.guid: as_named(entry) for entry in entries},
    )
