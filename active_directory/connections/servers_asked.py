"""Which servers of a directory something was read from: another one may hold another state of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[set[str] | None] = ContextVar("servers asked", default=None)


@contextmanager
def servers_asked() -> Iterator[set[str]]:
    """The URLs of the servers that are read from inside the block, by threads begun there, too."""
    around, servers = _asked.get(), set[str]()
    token = _asked.set(servers)
    try:
        yield servers
    finally:
        _asked.reset(token)
        if around is not None:
            around |= servers


def servers_asked_so_far() -> frozenset[str]:
    """Those of the innermost block around the caller."""
    return frozenset(_asked.get() or ())


def note_asked(server: str | None) -> None:
    """Count a server among those of the block, if there is one: something is made of what it answered."""
    servers = _asked.get()
    if servers is not None and server is not None:
        servers.add(server)
