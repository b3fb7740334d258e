"""The addresses by which agents know the gateway: its endpoint, which is the one audience of tokens, and its issuer.

They follow the host that the request was for, one of those that the deployment answers to: each is a name of the same
gateway, and a token is good under the name that it was issued for.
"""

from urllib.parse import urlsplit

from django.http import HttpRequest

ENDPOINT = "/mcp"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"

_DEFAULT_PORTS = {"http": 80, "https": 443}


def issuer_of(request: HttpRequest) -> str:
    """Who issues tokens (RFC 8414 section 2): the gateway's own origin, in normal form."""
    return _origin(request.build_absolute_uri("/")) or ""


def audience_of(request: HttpRequest) -> str:
    """The one audience of the tokens that are good at the host of this request: the agent endpoint there."""
    return issuer_of(request) + ENDPOINT


def resource_metadata_of(request: HttpRequest) -> str:
    """Where the metadata of the endpoint is (RFC 9728 section 3.1: the path goes behind the well-known one)."""
    return issuer_of(request) + RESOURCE_METADATA + ENDPOINT


def is_audience(request: HttpRequest, resource: str) -> bool:
    """Whether a resource indicator (RFC 8707) means the endpoint, however its host is spelt."""
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
