"""Which server of a directory all processes of the gateway use, so that each sees what another one has just written.

A write takes seconds to reach the other domain controllers. How the processes agree is the business of who makes a
client; here it is only asked.
"""


class Agreement:
    """Servers are named by URL. No method raises for a service that does not answer.

    This one is that of a directory with one server, whose users need no agreement.
    """

    heard: str | None = None
    """What `server` last heard, without asking again."""

    def server(self) -> str | None:
        """The one that took the latest write, as long as the others may not have it; None: any may be asked."""
        return None

    def claim(self, server: str) -> bool:
        """Let all know that this one takes writes now; whether for certain no other one has taken any lately."""
        return True

    def is_alone(self, server: str) -> bool:
        """Whether for certain no other one has taken a write lately; nobody is let know of anything."""
        return True


ONE_SERVER = Agreement()
