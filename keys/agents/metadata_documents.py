"""Clients by their id: those of the database, and those whose id is the address of their own metadata.

Such a document (draft-ietf-oauth-client-id-metadata-document) is fetched when a signed-in person is to consent, from
the hosts that the configuration names, over the connection that webhooks use: the host's address is judged, and no
redirect is followed. What it says counts for an hour.
"""

import json
import time
from collections.abc import Mapping
from datetime import timedelta
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.core.cache import cache
from django.http.request import validate_host
from django.utils import timezone

from audit.model_changes.recording import recorded
from audit.model_changes.unattended import call_of_gateway
from audit.webhooks.delivery import Undeliverable, connect
from keys.agents.registration import BadMetadata, check_addresses, check_name, make_client
from keys.models.agents import AgentClient

MAX_CLIENT_ID = 64
"""Characters. The operations log keeps no more."""
MAX_DOCUMENT = 16 * 1024
_COUNTS_FOR = timedelta(hours=1)
_PATIENCE = 10.0
"""Seconds for the whole document."""
_NOT_AGAIN_FOR = 60
"""Seconds after a document that was good for nothing: its address must not be fetched with each request."""

_logger = structlog.stdlib.get_logger(__name__)


def find_client(client_id: object) -> AgentClient | None:
    """The client of an id, as the database has it; None when there is none."""
    if not isinstance(client_id, str) or len(client_id) > MAX_CLIENT_ID or "\0" in client_id:
        return None
    client = AgentClient.objects.filter(client_id=client_id).first()
    if client is None or client.registration_source != AgentClient.RegistrationSource.CIMD:
        return client
    return client if may_be_fetched(client_id) else None


def may_be_fetched(client_id: str) -> bool:
    """Whether an id is the address of a document that this gateway is configured to believe."""
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


def learn(client_id: str) -> None:
    """Fetch the document of a client that is not known, or not any more, and keep what it says, with a record.

    What cannot be fetched or believed is logged, and changes nothing: a client that was known stays as it was.
    """
    if not may_be_fetched(client_id):
        return
    known = AgentClient.objects.filter(client_id=client_id).first()
    if known is not None and known.registration_source != AgentClient.RegistrationSource.CIMD:
        return
    if known is not None and known.cimd_expires_at is not None and known.cimd_expires_at > timezone.now():
        return
    if not cache.add(f"agents:document:{client_id}", 1, _NOT_AGAIN_FOR):
        return
    try:
        name, addresses = _read(client_id, _fetch(client_id))
    except (BadMetadata, Undeliverable, HTTPException, OSError, ValueError) as error:
        _logger.warning("metadata of an agent's client not believed", client=client_id, reason=str(error))
        return
    until = timezone.now() + _COUNTS_FOR
    with recorded(call_of_gateway(f"The metadata at {client_id}.")) as administration:
        if known is None:
            source = AgentClient.RegistrationSource.CIMD
            made = make_client(name, addresses, source, client_id=client_id, cimd_expires_at=until)
            administration.note_new_row(made)
        else:
            administration.watch_row(known)
            AgentClient.objects.filter(pk=known.pk).update(
                name=name, redirect_uris=" ".join(addresses), cimd_expires_at=until
            )


def _read(client_id: str, document: Any) -> tuple[str, list[str]]:
    """The name and the redirect addresses in a document; raises BadMetadata."""
    if not isinstance(document, Mapping) or document.get("client_id") != client_id:
        raise BadMetadata("invalid_client_metadata", "The document is not that of this client.")
    if document.get("token_endpoint_auth_method", "none") != "none" or "client_secret" in document:
        raise BadMetadata("invalid_client_metadata", "The client must be public.")
    return check_name(document.get("client_name")), check_addresses(document.get("redirect_uris"))


def _fetch(client_id: str) -> Any:
    """The JSON at an address; raises Undeliverable, HTTPException, OSError or ValueError."""
    deadline = time.monotonic() + _PATIENCE
    url = urlsplit(client_id)
    connection = connect(url)
    try:
        connection.request("GET", url.path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        media_type = response.headers.get_content_type()
        if response.status != 200 or not (media_type == "application/json" or media_type.endswith("+json")):
            raise ValueError(f"answered {response.status} with {media_type}")
        body = b""
        while block := response.read1(4096):
            body += block
            left = deadline - time.monotonic()
            if len(body) > MAX_DOCUMENT or left <= 0:
                raise ValueError("the document is too large, or too slow")
            if connection.sock is not None:
                connection.sock.settimeout(left)
        return json.loads(body)
    finally:
        connection.close()
