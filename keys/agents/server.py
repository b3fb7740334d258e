"""The OAuth 2.1 server: authorization codes and refresh tokens, no other grant."""

from typing import Any

from oauthlib.oauth2 import (
    AuthorizationCodeGrant,
    AuthorizationEndpoint,
    BearerToken,
    RefreshTokenGrant,
    RevocationEndpoint,
    TokenEndpoint,
)


class AgentServer(AuthorizationEndpoint, TokenEndpoint, RevocationEndpoint):
    """The endpoints of RFC 6749 and 7009 that agents need.

    The toolkit's own server also knows the implicit, password, client-credentials and device grants.
    """

    def __init__(
        self,
        request_validator: Any,
        token_expires_in: int | None = None,
        token_generator: Any = None,
        refresh_token_generator: Any = None,
        **_others: Any,
    ) -> None:
        codes, refreshing = AuthorizationCodeGrant(request_validator), RefreshTokenGrant(request_validator)
        bearer = BearerToken(request_validator, token_generator, token_expires_in, refresh_token_generator)
        AuthorizationEndpoint.__init__(
            self, default_response_type="code", response_types={"code": codes}, default_token_type=bearer
        )
        TokenEndpoint.__init__(
            self,
            default_grant_type="authorization_code",
            grant_types={"authorization_code": codes, "refresh_token": refreshing},
            default_token_type=bearer,
        )
        RevocationEndpoint.__init__(self, request_validator)
