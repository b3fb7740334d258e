"""Which server of a directory all processes of the gateway use, so that each sees what another one has just written.

A write takes seconds to reach the other domain controllers. How the processes agree is the business of who makes a
client; here it is only asked.
"""

from typing import Protocol


class Agreement(Protocol):
    """Servers are named by URL. Neither method raises for a service that does not answer."""

    def server(self) -> str | None:
        """The one that took the latest write, as long as the others may not have it; None: any may be asked."""

    def claim(self, server: str) -> bool:
        """Let all know that this one takes writes now; whether for certain no other one has taken any lately."""


class _OneServer:
    def server(self) -> str | None:
        return None

    def claim(self, server: str) -> bool:
        return True


ONE_SERVER: Agreement = _OneServer()
"""Of a directory with one server, whose users need no agreement."""
