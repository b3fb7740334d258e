"""The OAuth 2.1 server: authorization codes with PKCE and refresh tokens, no other grant."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.http import HttpRequest
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauthlib.oauth2 import (
    AuthorizationCodeGrant,
    AuthorizationEndpoint,
    BearerToken,
    RefreshTokenGrant,
    RevocationEndpoint,
    TokenEndpoint,
)
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256

from core.oauth import ACCESS_TOKEN_SECONDS
from keys.agents.grants import Consent
from keys.agents.issuer_urls import audience_of, is_audience
from keys.agents.validator import AUDIENCE, AgentValidator
from keys.models.agents import AgentGrant

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""SHA-256 in base64url without padding (RFC 7636 section 4.2)."""


class InvalidTarget(errors.OAuth2Error):
    """A resource was named that is not this gateway's agent endpoint (RFC 8707 section 2)."""

    error = "invalid_target"
    description = "Tokens are issued for this gateway's agent endpoint only."


class _CodeGrant(AuthorizationCodeGrant):
    """Without the PKCE method `plain`, which is also what a challenge without a method would mean."""

    _code_challenge_methods = {"S256": code_challenge_method_s256}


class AgentServer(AuthorizationEndpoint, TokenEndpoint, RevocationEndpoint):
    """The endpoints of RFC 6749 and 7009 that agents need.

    The toolkit's own server also knows the implicit, password, client-credentials and device grants.
    """

    def __init__(self, request_validator: Any, **_settings: Any) -> None:  # the toolkit would pass its own
        codes = _CodeGrant(request_validator, post_auth=[_require_challenge])
        bearer = BearerToken(request_validator, expires_in=ACCESS_TOKEN_SECONDS)
        AuthorizationEndpoint.__init__(
            self, default_response_type="code", response_types={"code": codes}, default_token_type=bearer
        )
        TokenEndpoint.__init__(
            self,
            default_grant_type="authorization_code",
            grant_types={"authorization_code": codes, "refresh_token": RefreshTokenGrant(request_validator)},
            default_token_type=bearer,
        )
        RevocationEndpoint.__init__(self, request_validator)


def _require_challenge(request: Any) -> dict[str, Any]:
    """Refuse a challenge that no verifier could ever meet: somebody has cut or changed it."""
    if not _CHALLENGE.fullmatch(request.code_challenge or ""):
        raise errors.InvalidRequestError(description="Malformed code_challenge.", request=request)
    return {}


class AgentOAuth(OAuthLibCore):
    """From Django's requests to the server's."""

    def __init__(self) -> None:
        super().__init__(AgentServer(AgentValidator()))

    def extract_headers(self, request: HttpRequest) -> dict[str, str]:
        """Only what the server needs: no credential, no cookie, and the audience as this host knows it."""
        return {"Content-Type": request.META.get("CONTENT_TYPE", ""), AUDIENCE: audience_of(request)}

    def read_authorization_request(self, request: HttpRequest) -> tuple[list[str], dict[str, Any]]:
        """The scopes asked for and what else was; raises FatalClientError, OAuth2Error, or ValueError."""
        scopes, facts = self.server.validate_authorization_request(
            self._get_escaped_full_path(request), http_method="GET", headers=self.extract_headers(request)
        )
        return scopes, facts

    def issue_code(
        self, request: HttpRequest, redirect_uri: str, state: str | None, consent: Consent
    ) -> tuple[str, AgentGrant | None]:
        """Where the answer goes, and the grant that its code is for: None when it is an error."""
        made: list[AgentGrant] = []
        headers, _, _ = self.server.create_authorization_response(
            self._get_escaped_full_path(request),
            http_method="GET",
            headers=self.extract_headers(request),
            scopes=list(consent.scopes),
            credentials={
                "redirect_uri": redirect_uri,
                "state": state,
                "user": consent.person,
                "consent": consent,
                "made": made,
            },
        )
        return headers["Location"], next(iter(made), None)


@cache
def oauth() -> AgentOAuth:
    """The server of this process; it keeps nothing of any request."""
    return AgentOAuth()


def require_audience(request: HttpRequest, resources: Iterable[str]) -> None:
    """Refuse a request that asks for tokens for somebody else; raises InvalidTarget. None named means the endpoint."""
    if not all(is_audience(request, resource) for resource in resources):
        raise InvalidTarget
