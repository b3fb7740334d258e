"""Dynamic client registration (RFC 7591): an agent makes itself known, and gets an id without a secret.

Anybody can register; it gives nothing but a name on a consent page. So what is registered is bounded: how much, how
often, and for how long without use.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from oauthlib.common import generate_token

from audit.model_changes.recording import recorded
from audit.model_changes.unattended import call_of_gateway
from core.configuration import RateLimit
from core.errors import RateLimited, ServiceUnavailable
from core.occasional_limits import usage_of
from core.rate_limits import CountersUnavailable, address_subject
from core.text.unseen import has_unseen
from keys.agents import redirects
from keys.agents.cleanup import unused_clients
from keys.models.agents import NAME_LENGTH, AgentClient

NAMELESS = "Agent without a name"
MOST_UNUSED = 5_000
"""Clients that nobody has let do anything, at once: more are somebody filling the table."""


@dataclass(frozen=True, slots=True)
class BadMetadata(Exception):
    """What is registered is not acceptable: the error of RFC 7591 section 3.2.2, and why."""

    error: str
    description: str


class RegistrationClosed(Exception):
    """Clients are made by an administrator (`Agents:Registration`)."""


def register(metadata: Mapping[str, Any], *, address: str) -> AgentClient:
    """A new client of these metadata, for whoever calls from an address.

    Raises RegistrationClosed, RateLimited, ServiceUnavailable or BadMetadata.
    """
    if settings.CONFIGURATION.Agents.Registration != "open":
        raise RegistrationClosed
    _count(address)
    name, addresses = check_name(metadata.get("client_name")), check_addresses(metadata.get("redirect_uris"))
    for member, needed in (("grant_types", "authorization_code"), ("response_types", "code")):
        given = metadata.get(member, [needed])
        if not isinstance(given, list) or needed not in given:
            raise BadMetadata("invalid_client_metadata", f"{member} must hold {needed}.")
    if unused_clients().count() >= MOST_UNUSED:
        raise ServiceUnavailable("Too many clients are registered and not used.", retry_after=3600)
    with recorded(call_of_gateway(f"Registered by itself, from {address}."), operation="agent-clients.create") as made:
        client = make_client(name, addresses, AgentClient.RegistrationSource.DCR, created_address=address)
        made.note_new_row(client)
    return client


def make_client(name: str, addresses: list[str], source: str, **fields: Any) -> AgentClient:
    """Save a new public client; what is in it was checked before."""
    return AgentClient.objects.create(
        **{
            "client_id": generate_token(),
            "name": name,
            "redirect_uris": " ".join(addresses),
            "client_type": AgentClient.CLIENT_PUBLIC,
            "authorization_grant_type": AgentClient.GRANT_AUTHORIZATION_CODE,
            "registration_source": source,
            **fields,
        }
    )


def check_name(name: Any) -> str:
    """The name of a client as people are shown it; raises BadMetadata."""
    if name is None:
        return NAMELESS
    if not isinstance(name, str) or len(name) > NAME_LENGTH:
        raise BadMetadata("invalid_client_metadata", f"client_name must be text of at most {NAME_LENGTH} characters.")
    name = " ".join(unicodedata.normalize("NFC", name).split())
    if has_unseen(name):
        raise BadMetadata("invalid_client_metadata", "client_name has characters that nobody sees.")
    return name or NAMELESS


def check_addresses(addresses: Any) -> list[str]:
    """The redirect addresses of a client; raises BadMetadata."""
    if not isinstance(addresses, list) or not addresses or not all(isinstance(item, str) for item in addresses):
        raise BadMetadata("invalid_redirect_uri", "redirect_uris must be a list with at least one address.")
    if len(addresses) > redirects.MAX_ADDRESSES:
        raise BadMetadata("invalid_redirect_uri", f"At most {redirects.MAX_ADDRESSES} redirect_uris are kept.")
    for item in addresses:
        if why := redirects.why_unacceptable(item):
            raise BadMetadata("invalid_redirect_uri", f"A redirect URI {why}.")
    return list(dict.fromkeys(addresses))


def _count(address: str) -> None:
    """Count a registration against its address, refused ones too; raises RateLimited or ServiceUnavailable."""
    if not settings.CONFIGURATION.RateLimiting.Enabled:
        return
    limit = RateLimit(Requests=settings.CONFIGURATION.Agents.RegistrationsPerHour, WindowSeconds=3600)
    try:
        usage = usage_of("AgentRegistration", address_subject(address), limit)
    except CountersUnavailable:
        raise ServiceUnavailable("Registrations wait until they can be counted.") from None
    if usage.is_exceeded:
        raise RateLimited(retry_after=usage.rest)
