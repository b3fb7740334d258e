"""Where a page may send somebody on to: pages of this gateway and of no other, whatever a form or an address says."""

from urllib.parse import urlsplit, urlunsplit

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme


def own_path(request: HttpRequest, address: str) -> str | None:
    """Path and query of an address of this gateway; None for every other.

    Only they are returned, and nothing of scheme and host: no browser can read a host into them.
    """
    if not url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure()):
        return None
    parts = urlsplit(address)
    if not parts.path.startswith("/") or parts.path.startswith("//") or "\\" in address:
        return None
    return urlunsplit(("", "", parts.path, parts.query, parts.fragment))
