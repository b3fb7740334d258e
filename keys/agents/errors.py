"""Refusals of this part: what an agent is told that may not, or not yet."""

from core.errors import GatewayError, Unauthorized


class AgentsNotInstalled(GatewayError):
    """Agents are wanted, and cannot be served: `gateway check` says how to install what they need."""

    status, code = 501, "Agents.NotInstalled"
    title = "Agents are switched on, but this gateway was installed without what they need"


class UnauthorizedAgent(Unauthorized):
    """No usable agent token. The header leads a client to the sign-in (RFC 9728 section 5.1).

    Whether anything was presented is all that it tells: never why that was not good enough.
    """

    def __init__(self, *, metadata_url: str, presented: bool) -> None:
        super().__init__()
        error = ', error="invalid_token"' if presented else ""
        self.headers["WWW-Authenticate"] = (
            f'Bearer realm="directory-gateway"{error}, resource_metadata="{metadata_url}"'
        )
