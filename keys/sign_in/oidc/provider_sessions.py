"""Sessions that began at a provider: what is kept of them, and how the provider ends them."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from django.http import HttpRequest

SESSION_KEY: Final = "oidc"
_MAX_HINT: Final = 4096
"""Characters of an ID token that still fit into an address."""


@dataclass(frozen=True, slots=True)
class ProviderSession:
    """`id_token` goes back to the provider at the sign-out (`id_token_hint`); it lets nobody in."""

    provider: str
    subject: str
    session_id: str
    id_token: str
    acr: str = ""
    amr: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def session_from(provider: str, claims: dict[str, Any], id_token: str) -> ProviderSession:
    amr = [item for item in claims.get("amr") or () if isinstance(item, str)]
    hint = id_token if len(id_token) <= _MAX_HINT else ""
    return ProviderSession(provider, claims["sub"], claims.get("sid", ""), hint, claims.get("acr", ""), amr)


def provider_session_of(request: HttpRequest) -> ProviderSession | None:
    """What the request's session began with, if it began at a provider."""
    kept = request.session.get(SESSION_KEY)
    return None if kept is None else ProviderSession(**kept)
