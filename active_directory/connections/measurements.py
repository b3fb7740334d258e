"""Reports each use of a connection to one listener, and tells callers which servers they have read from."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from active_directory.errors import LdapError


class Listener:
    """Receives measurements; this base class ignores them.

    `server` is the URL of a domain controller, `kind` is `read`, `search` or `write`, times are in seconds.
    """

    def used(self, server: str, kind: str, seconds: float) -> None:
        """A connection was used and still works; the answer may have been an error."""

    def failed(self, server: str, kind: str, error: str) -> None:
        """A connection broke during use, or could not be opened (`kind` is `connect`); `error` is a class name."""

    def waited(self, seconds: float) -> None:
        """A caller waited for a connection: all were in use, or one had to be opened."""


listener = Listener()


def listen(new: Listener) -> None:
    """Replace the listener."""
    global listener  # noqa: PLW0603 - one for the process, set once as it starts
    listener = new


@contextmanager
def connecting(server: str) -> Iterator[None]:
    """Report it to the listener if the block fails to open a connection to a server."""
    try:
        yield
    except LdapError as error:
        listener.failed(server, "connect", type(error).__name__)
        raise


_asked: ContextVar[set[str] | None] = ContextVar("servers asked", default=None)


class servers_asked:  # noqa: N801 - called as a function, and quicker than a generator's context manager
    """Collect the URLs of the servers that the block reads from, including its threads.

    Different servers may hold different states of the directory.
    """

    def __enter__(self) -> set[str]:
        self._outer, self._servers = _asked.get(), set[str]()
        self._token = _asked.set(self._servers)
        return self._servers

    def __exit__(self, *_: object) -> None:
        _asked.reset(self._token)
        if self._outer is not None:
            self._outer |= self._servers


def servers_asked_so_far() -> frozenset[str]:
    """The URLs of the servers that the innermost `servers_asked` block has read from so far."""
    return frozenset(_asked.get() or ())


def note_asked(server: str | None) -> None:
    """Add a server to those of the `servers_asked` block, if the caller is in one."""
    servers = _asked.get()
    if servers is not None and server is not None:
        servers.add(server)
