"""What the gateway tells agents about itself: the endpoint as a protected resource (RFC 9728), and who issues its
tokens (RFC 8414)."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from keys.agents.issuer_urls import audience_of, issuer_of
from keys.agents.scopes import SCOPES

AUTHORIZE, TOKEN, REGISTER, REVOKE = "/console/connect-agent", "/oauth/token", "/oauth/register", "/oauth/revoke"


def resource_metadata(request: HttpRequest) -> dict[str, Any]:
    """The agent endpoint: whose tokens it takes, and how."""
    return {
        "resource": audience_of(request),
        "authorization_servers": [issuer_of(request)],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "Directory Management Gateway",
    }


def server_metadata(request: HttpRequest) -> dict[str, Any]:
    """The authorization server: where its endpoints are, and what it takes."""
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
