"""Signing out: at the provider, and by the provider (RP-Initiated Logout 1.0, Back-Channel Logout 1.0)."""

import hashlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode, urlsplit

from django.core.cache import cache
from redis import RedisError

from core.configuration_sections import OidcProvider
from core.errors import NotFound, ServiceUnavailable
from keys.sign_in import sessions
from keys.sign_in.oidc.provider_sessions import ProviderSession
from keys.sign_in.oidc.providers import ProviderSilent, find_provider, metadata_of
from keys.sign_in.oidc.tokens import LEEWAY, NotVerified, verify_logout_token

_REMEMBERED = timedelta(hours=1)
"""How long used logout tokens are remembered; an older one ends no session that has begun since."""


def end_session_url(began_at: ProviderSession, *, return_to: str) -> str | None:
    """Where the browser goes to sign out at the provider; None if the provider has no such address, or is away."""
    try:
        provider = find_provider(began_at.provider)
        endpoint = metadata_of(provider).get("end_session_endpoint")
    except (NotFound, ProviderSilent):
        return None
    if endpoint is None:
        return None
    asked = {"client_id": provider.ClientId, "post_logout_redirect_uri": return_to}
    if began_at.id_token:
        asked["id_token_hint"] = began_at.id_token
    return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked)}"


def end_by_token(provider: OidcProvider, token: object) -> int:
    """End the sessions that a logout token names; return how many. Raises NotVerified and ServiceUnavailable."""
    verified = verify_logout_token(provider, token)
    digest = hashlib.sha256(f"{provider.Name}\0{verified.token_id}".encode()).hexdigest()
    used = f"oidc:logout:{digest}"
    try:
        is_new = cache.add(used, 1, int(_REMEMBERED.total_seconds()))
    except (RedisError, OSError) as error:
        raise ServiceUnavailable from error
    if not is_new:
        raise NotVerified("it was used before")
    # The provider's clock may be behind: a session that has just begun is meant, too.
    begun_before = datetime.fromtimestamp(verified.issued_at, UTC) + timedelta(seconds=LEEWAY)
    try:
        return sessions.end_at_provider(
            provider.Name, subject=verified.subject, session_id=verified.session_id, begun_before=begun_before
        )
    except Exception:
        with suppress(RedisError, OSError):
            cache.delete(used)  # the provider sends it again
        raise
