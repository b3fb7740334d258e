"""The OAuth clients of agents: their redirect URIs, dynamic registration, and clients described by a document.

A redirect URI uses TLS or leads to a program on the person's own machine: by loopback, or by a private-use scheme that
the configuration names. Another program may have taken that scheme; without the PKCE verifier its code is worthless.
URIs are compared as exact strings (RFC 9700 section 2.1), except for the port of a loopback URI, since the program
takes whichever port is free (RFC 8252 section 7.3).

With dynamic registration (RFC 7591) an agent registers itself and gets an id without a secret. Anybody can do this, and
gains nothing but a name on a consent page. So the number, the rate and the idle time of registrations are bounded.

An id may be the URL of the client's own metadata (draft-ietf-oauth-client-id-metadata-document). The gateway fetches
the document when a signed-in person is asked to consent, only from hosts that the configuration names. It uses the
connection of the webhooks, which checks the host's address and follows no redirect. The metadata are kept for an hour.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.core.cache import cache
from django.http.request import validate_host
from django.utils import timezone
from oauthlib.common import generate_token

from audit.model_changes.recording import call_of_gateway, recorded
from audit.webhooks.download import NotFetched, fetch_json
from core.configuration_sections import RateLimit
from core.errors import ServiceUnavailable
from core.rate_limits import address_subject, require_below_limit
from core.text.invisible import has_invisible
from keys.agents.grants import unused_clients
from keys.models.agents import NAME_LENGTH, AgentClient

MAX_REDIRECT_URIS = 10
MAX_URI_LENGTH = 1000
MAX_CLIENT_ID = 64
"""Characters: the length of the operations log's column."""
DEFAULT_NAME = "Agent without a name"
MAX_UNUSED_CLIENTS = 5_000
"""Registered clients without any grant. More would mean that somebody is filling the table."""
MAX_DOCUMENT_BYTES = 16 * 1024
_METADATA_LIFETIME = timedelta(hours=1)
_PAUSE_BETWEEN_DOWNLOADS = 60
"""Seconds, also after an unusable document: otherwise each request for consent would make the gateway send one."""

_logger = structlog.stdlib.get_logger(__name__)

_URI = re.compile(r"[A-Za-z0-9:/?\[\]@!$&'()*+,;=._~%-]+")
"""The characters of a URI without a fragment (RFC 3986): no space, double quote or control character."""
_LOOPBACK = re.compile(r"http://(127\.0\.0\.1|\[::1\]|localhost)(?::([0-9]{1,5}))?((?:[/?].*)?)")
_PRIVATE = re.compile(r"[a-z][a-z0-9+.-]*:(/[^/].*|//[^/@]+(/.*)?)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


def redirect_uri_problem(uri: str) -> str | None:
    """Why a redirect URI may not be registered, as the end of a sentence; None if it may."""
    if len(uri) > MAX_URI_LENGTH or not _URI.fullmatch(uri):
        return "is no absolute address without a fragment"
    if "*" in uri:
        return "must not have *, for it stands for itself alone"
    if loopback := _LOOPBACK.fullmatch(uri):
        return None if 0 < int(loopback[2] or 80) < 65_536 else "has an impossible port"
    if is_private(uri):
        return None if _PRIVATE.fullmatch(uri) else "must name a place behind its scheme, without a user"
    return _web_address_problem(uri)


def _web_address_problem(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return "is no address"
    if parts.scheme != "https":
        schemes = ", ".join(("https", *settings.CONFIGURATION.Agents.RedirectSchemes))
        return f"must be {schemes}, or http on 127.0.0.1, [::1] or localhost"
    if parts.username is not None or parts.password is not None or not _HOST.fullmatch(parts.hostname or ""):
        return "must name a host, without a user"
    written = (parts.hostname or "") + ("" if port is None else f":{port}")
    return None if parts.netloc == written and port != 0 else "must name its host in lower case"


def is_registered_redirect_uri(uri: str, registered: Iterable[str]) -> bool:
    """Whether the redirect URI of a request is one of those registered."""
    if redirect_uri_problem(uri) is not None:
        return False
    requested = _LOOPBACK.fullmatch(uri)
    for known in registered:
        if uri == known:
            return True
        loopback = _LOOPBACK.fullmatch(known)
        if requested and loopback and (requested[1], requested[3]) == (loopback[1], loopback[3]):  # all but the port
            return True
    return False


def is_loopback(uri: str) -> bool:
    """Whether a redirect URI leads to the person's own machine."""
    return _LOOPBACK.fullmatch(uri) is not None


def is_private(uri: str) -> bool:
    """Whether a redirect URI has one of the private-use schemes that the configuration names (RFC 8252 section 7.1)."""
    return uri.partition(":")[0] in settings.CONFIGURATION.Agents.RedirectSchemes


def csp_source_of(uri: str) -> str:
    """A redirect URI's origin for a Content-Security-Policy; its scheme where an origin has no syntax there."""
    parts = urlsplit(uri)
    has_origin = parts.scheme in ("http", "https") and not parts.netloc.startswith("[")
    return f"{parts.scheme}://{parts.netloc}" if has_origin else f"{parts.scheme}:"


@dataclass(frozen=True, slots=True)
class BadMetadata(Exception):
    """Client metadata that cannot be accepted, with the error code of RFC 7591 section 3.2.2 and an explanation."""

    error: str
    description: str


class RegistrationClosed(Exception):
    """Only administrators make clients (`Agents:Registration`)."""


def register(metadata: Mapping[str, Any], *, address: str) -> AgentClient:
    """Register a client with these metadata for a caller at an IP address.

    Raises RegistrationClosed, RateLimited, ServiceUnavailable or BadMetadata.
    """
    if settings.CONFIGURATION.Agents.Registration != "open":
        raise RegistrationClosed
    limit = RateLimit(Requests=settings.CONFIGURATION.Agents.RegistrationsPerHour, WindowSeconds=3600)
    subject, waits = address_subject(address), "Registrations wait until they can be counted."
    # Before anything is checked, so that refused registrations count too.
    require_below_limit("AgentRegistration", subject, limit, waits=waits)
    name, uris = _clean_name(metadata.get("client_name")), _clean_redirect_uris(metadata.get("redirect_uris"))
    for member, needed in (("grant_types", "authorization_code"), ("response_types", "code")):
        given = metadata.get(member, [needed])
        if not isinstance(given, list) or needed not in given:
            raise BadMetadata("invalid_client_metadata", f"{member} must hold {needed}.")
    if unused_clients().count() >= MAX_UNUSED_CLIENTS:
        raise ServiceUnavailable("Too many clients are registered and not used.", retry_after=3600)
    with recorded(call_of_gateway(f"Registered by itself, from {address}."), operation="agent-clients.create") as made:
        client = make_client(name, uris, AgentClient.RegistrationSource.DCR, created_address=address)
        made.note_new_row(client)
    return client


def make_client(name: str, redirect_uris: list[str], source: str, **fields: Any) -> AgentClient:
    """Save a new public client. The caller has checked its name and URIs."""
    return AgentClient.objects.create(
        **{
            "client_id": generate_token(),
            "name": name,
            "redirect_uris": " ".join(redirect_uris),
            "client_type": AgentClient.CLIENT_PUBLIC,
            "authorization_grant_type": AgentClient.GRANT_AUTHORIZATION_CODE,
            "registration_source": source,
            **fields,
        }
    )


def _clean_name(name: Any) -> str:
    """A client's name as people will read it, normalized; raises BadMetadata."""
    if name is None:
        return DEFAULT_NAME
    if not isinstance(name, str) or len(name) > NAME_LENGTH:
        raise BadMetadata("invalid_client_metadata", f"client_name must be text of at most {NAME_LENGTH} characters.")
    name = " ".join(unicodedata.normalize("NFC", name).split())
    if has_invisible(name):
        raise BadMetadata("invalid_client_metadata", "client_name has characters that nobody sees.")
    return name or DEFAULT_NAME


def _clean_redirect_uris(uris: Any) -> list[str]:
    """A client's redirect URIs without duplicates; raises BadMetadata.

    Programs name all that they ever use. Those of an unknown private-use scheme are left out, which the answer shows,
    if there are others.
    """
    if not isinstance(uris, list) or not uris or not all(isinstance(item, str) for item in uris):
        raise BadMetadata("invalid_redirect_uri", "redirect_uris must be a list with at least one address.")
    if len(uris) > MAX_REDIRECT_URIS:
        raise BadMetadata("invalid_redirect_uri", f"At most {MAX_REDIRECT_URIS} redirect_uris are kept.")
    known = [item for item in uris if not _has_unknown_scheme(item)] or uris
    for item in known:
        if why := redirect_uri_problem(item):
            raise BadMetadata("invalid_redirect_uri", f"A redirect URI {why}.")
    return list(dict.fromkeys(known))


def _has_unknown_scheme(uri: str) -> bool:
    scheme = _SCHEME.match(uri)
    return scheme is not None and scheme[1].lower() not in ("http", "https") and not is_private(uri)


def find_client(client_id: object) -> AgentClient | None:
    """The known client with this id, if any. If a document describes it, its host must still be allowed."""
    if not isinstance(client_id, str) or len(client_id) > MAX_CLIENT_ID or "\0" in client_id:
        return None
    client = AgentClient.objects.filter(client_id=client_id).first()
    if client is None or client.registration_source != AgentClient.RegistrationSource.CIMD:
        return client
    return client if is_metadata_url(client_id) else None


def is_metadata_url(client_id: str) -> bool:
    """Whether a client id is the URL of a metadata document on a host that the configuration allows."""
    agents = settings.CONFIGURATION.Agents
    if not agents.MetadataDocuments or len(client_id) > MAX_CLIENT_ID or not client_id.isascii():
        return False
    try:
        parts = urlsplit(client_id)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme != "https" or parts.netloc not in (parts.hostname, f"{parts.hostname}:{port}"):
        return False
    is_plain = not (parts.query or parts.fragment) and client_id.isprintable() and "#" not in client_id
    segments = parts.path.split("/")
    has_path = len(parts.path) > 1 and not {".", ".."} & set(segments)
    return is_plain and has_path and validate_host(parts.hostname or "", list(agents.MetadataHosts))


def fetch_client_metadata(client_id: str) -> None:
    """Fetch the metadata document of a client that is new, or whose metadata are outdated; save and record them.

    A document that cannot be fetched or accepted is only logged: a known client stays as it is.
    """
    if not is_metadata_url(client_id):
        return
    known = AgentClient.objects.filter(client_id=client_id).first()
    if known is not None and known.registration_source != AgentClient.RegistrationSource.CIMD:
        return
    if known is not None and known.cimd_expires_at is not None and known.cimd_expires_at > timezone.now():
        return
    if not cache.add(f"agents:document:{client_id}", 1, _PAUSE_BETWEEN_DOWNLOADS):
        return
    try:
        name, uris = _parse_metadata(client_id, fetch_json(client_id, max_bytes=MAX_DOCUMENT_BYTES))
    except (BadMetadata, NotFetched) as error:
        _logger.warning("metadata of an agent's client not believed", client=client_id, reason=str(error))
        return
    until = timezone.now() + _METADATA_LIFETIME
    with recorded(call_of_gateway(f"The metadata at {client_id}.")) as administration:
        if known is None:
            source = AgentClient.RegistrationSource.CIMD
            made = make_client(name, uris, source, client_id=client_id, cimd_expires_at=until)
            administration.note_new_row(made)
        else:
            administration.watch_row(known)
            AgentClient.objects.filter(pk=known.pk).update(
                name=name, redirect_uris=" ".join(uris), cimd_expires_at=until
            )


def _parse_metadata(client_id: str, document: Any) -> tuple[str, list[str]]:
    """The name and the redirect URIs in a document; raises BadMetadata."""
    # The document must name its own URL, or one client could serve a copy of another one's.
    if not isinstance(document, Mapping) or document.get("client_id") != client_id:
        raise BadMetadata("invalid_client_metadata", "The document is not that of this client.")
    if document.get("token_endpoint_auth_method", "none") != "none" or "client_secret" in document:
        raise BadMetadata("invalid_client_metadata", "The client must be public.")
    return _clean_name(document.get("client_name")), _clean_redirect_uris(document.get("redirect_uris"))
