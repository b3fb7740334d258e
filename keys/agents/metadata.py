"""The metadata that agents discover: the endpoint as a protected resource (RFC 9728) and its authorization server
(RFC 8414).

The URLs use the host of the request, one of those that the deployment answers to. A token is good only under the host
name that it was issued for.
"""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

from keys.agents.scopes import SCOPES

AUTHORIZE, TOKEN, REGISTER, REVOKE = "/console/connect-agent", "/oauth/token", "/oauth/register", "/oauth/revoke"
ENDPOINT = "/mcp"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"

_DEFAULT_PORTS = {"http": 80, "https": 443}


def issuer_of(request: HttpRequest) -> str:
    """The issuer of tokens (RFC 8414 section 2): the gateway's own origin, in normal form."""
    return _origin(request.build_absolute_uri("/")) or ""


def audience_of(request: HttpRequest) -> str:
    """The audience of tokens for the host of this request: the agent endpoint there."""
    return issuer_of(request) + ENDPOINT


def resource_metadata_of(request: HttpRequest) -> str:
    """The URL of the endpoint's metadata. The endpoint's path follows the well-known one (RFC 9728 section 3.1)."""
    return issuer_of(request) + RESOURCE_METADATA + ENDPOINT


def is_audience(request: HttpRequest, resource: str) -> bool:
    """Whether a resource indicator (RFC 8707) means the endpoint, in any spelling of its host."""
    try:
        parts = urlsplit(resource)
        origin = _origin(resource)
    except ValueError:
        return False
    is_plain = not (parts.query or parts.fragment or parts.username is not None or "#" in resource or "?" in resource)
    return is_plain and origin == issuer_of(request) and parts.path in (ENDPOINT, f"{ENDPOINT}/")


def _origin(url: str) -> str | None:
    """Scheme, host and port in normal form (RFC 3986 section 6.2.3); raises ValueError for an impossible port."""
    parts = urlsplit(url)
    if not parts.scheme or not parts.hostname:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port
    shown = "" if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f":{port}"
    return f"{parts.scheme}://{host}{shown}"


def resource_metadata(request: HttpRequest) -> dict[str, Any]:
    """The metadata of the agent endpoint as a protected resource."""
    return {
        "resource": audience_of(request),
        "authorization_servers": [issuer_of(request)],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "Directory Management Gateway",
    }


def server_metadata(request: HttpRequest) -> dict[str, Any]:
    """The metadata of the authorization server."""
    issuer, agents = issuer_of(request), settings.CONFIGURATION.Agents
    registration = {"registration_endpoint": issuer + REGISTER} if agents.Registration == "open" else {}
    return {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZE,
        "token_endpoint": issuer + TOKEN,
        **registration,
        "revocation_endpoint": issuer + REVOKE,
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": agents.MetadataDocuments,
    }
