"""Who wants to know how the directory answers: one listener in a process, told of each use of a connection.

What is made of it is the listener's business; here it is only made sure that nobody is told nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from active_directory.errors import LdapError


class Listener:
    """`server` is the URL of a domain controller, `kind` `read`, `search` or `write`, and times are in seconds.

    This one makes nothing of what it is told.
    """

    def used(self, server: str, kind: str, seconds: float) -> None:
        """A connection was used, and is in order afterwards: the answer may have been a refusal."""

    def failed(self, server: str, kind: str, error: str) -> None:
        """A connection broke while it was used, or could not be opened (`connect`); `error` is its class."""

    def waited(self, seconds: float) -> None:
        """A connection was waited for: others had all of them, or one had to be opened."""


listener = Listener()


def listen(new: Listener) -> None:
    """Tell this one from now on, and nobody else."""
    global listener  # noqa: PLW0603 - one for the process, set once as it starts
    listener = new


@contextmanager
def connecting(server: str) -> Iterator[None]:
    """Around the opening of a connection to a server."""
    try:
        yield
    except LdapError as error:
        listener.failed(server, "connect", type(error).__name__)
        raise
