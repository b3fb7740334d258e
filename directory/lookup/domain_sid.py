"""The security identifier of a client's domain."""

from active_directory import Client, ProtocolError, sid_to_text
from directory.lookup.kept import kept_by_client


@kept_by_client
def domain_sid(client: Client) -> str:
    """The SID of the client's domain; it never changes."""
    values = client.read(client.default_naming_context, ("objectSid",)).values("objectSid")
    if not values:
        raise ProtocolError("The domain's own SID cannot be read", attribute="objectSid")
    return sid_to_text(values[0])
