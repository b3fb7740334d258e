"""Verifies what a provider has signed: ID tokens (OpenID Connect Core 1.0) and logout tokens (Back-Channel Logout 1.0).

docs/sign-in.md lists each check with its test.
"""

from dataclasses import dataclass
from typing import Any, Final

from authlib.oidc.core import CodeIDToken
from joserfc import jws, jwt
from joserfc.errors import JoseError

from core.configuration_sections import OidcProvider
from core.shapes import Json
from keys.sign_in.oidc.providers import keys_of

LEEWAY: Final = 60
"""Seconds by which the provider's clock may be off."""
_MAX_TOKEN: Final = 64 * 1024
_MAX_TEXT: Final = 255
_LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"


class NotVerified(Exception):
    """Why an answer of a provider is not believed."""


@dataclass(frozen=True, slots=True)
class LogoutToken:
    subject: str
    session_id: str
    token_id: str
    issued_at: int


def verify_id_token(provider: OidcProvider, token: object, *, nonce: str, access_token: object) -> Json:
    """The claims of an ID token; raises NotVerified, or ProviderSilent if there are no keys."""
    params = {"nonce": nonce, "client_id": provider.ClientId, "access_token": access_token}
    claims = _verified_claims(provider, token, params)
    for name in ("sub", "sid", "acr"):
        if not isinstance(claims.get(name, ""), str) or len(claims.get(name, "")) > _MAX_TEXT:
            raise NotVerified(f"{name} is no text, or too long")
    return claims


def verify_logout_token(provider: OidcProvider, token: object) -> LogoutToken:
    """What a logout token asks for; raises NotVerified, or ProviderSilent if there are no keys."""
    claims = _verified_claims(provider, token, {}, is_logout=True)
    events, subject, session_id, token_id = (claims.get(name) for name in ("events", "sub", "sid", "jti"))
    if not isinstance(events, dict) or not isinstance(events.get(_LOGOUT_EVENT), dict):
        raise NotVerified("it is no event of signing out")
    if "nonce" in claims:  # an ID token must not pass for one
        raise NotVerified("it has a nonce")
    if not all(isinstance(item, str) for item in (subject or "", session_id or "", token_id)) or not token_id:
        raise NotVerified("jti, sub or sid is no text")
    if not subject and not session_id:
        raise NotVerified("it has neither sub nor sid")
    return LogoutToken(str(subject or ""), str(session_id or ""), str(token_id), int(claims["iat"]))


def _verified_claims(provider: OidcProvider, token: object, params: Json, *, is_logout: bool = False) -> Json:
    """Check signature, `iss`, `aud`, `azp`, `exp`, `iat`, and with these `params` `nonce` and `at_hash`."""
    if not isinstance(token, str) or len(token) > _MAX_TOKEN:
        raise NotVerified("there is no token")
    try:
        # Before the key is looked for: `none` and signatures with a shared key (HS256) are never verified.
        header = jws.extract_compact(token.encode()).protected
        if header.get("alg") not in provider.Algorithms:
            raise NotVerified(f"the algorithm {header.get('alg')} is not allowed")
        if is_logout and str(header.get("typ", "JWT")).lower().removeprefix("application/") not in (
            "logout+jwt",
            "jwt",
        ):
            raise NotVerified("its type is another one")
        kid = header.get("kid")
        keys = keys_of(provider, kid if isinstance(kid, str) else None)
        decoded = jwt.decode(token, keys, algorithms=list(provider.Algorithms))
        claims = decoded.claims
        subject = claims.get("sub")
        if is_logout:
            claims = {"sub": "-", **claims}
        elif not isinstance(subject, str) or not subject:
            raise NotVerified("sub is no text")
        options: Any = {
            "iss": {"essential": True, "value": provider.Issuer},
            "aud": {"essential": True, "value": provider.ClientId},
        }
        CodeIDToken(claims, decoded.header, options, {"client_id": provider.ClientId, **params}).validate(leeway=LEEWAY)
    except (JoseError, ValueError, TypeError) as error:
        raise NotVerified(str(error)) from error
    return dict(decoded.claims)
