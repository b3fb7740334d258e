"""Settings of Django OAuth Toolkit: OAuth 2.1, with every strict option of RFC 9700 that the toolkit has."""

ACCESS_TOKEN_SECONDS = 15 * 60
REFRESH_TOKEN_SECONDS = 30 * 24 * 3600
CODE_SECONDS = 60


PROVIDER_SETTINGS = {
    "OAUTH2_SERVER_CLASS": "keys.agents.server.AgentServer",
    "OAUTH2_VALIDATOR_CLASS": "keys.agents.server.AgentValidator",
    "ACCESS_TOKEN_EXPIRE_SECONDS": ACCESS_TOKEN_SECONDS,
    "REFRESH_TOKEN_EXPIRE_SECONDS": REFRESH_TOKEN_SECONDS,
    "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": 0,
    "REFRESH_TOKEN_REUSE_PROTECTION": True,
    "ROTATE_REFRESH_TOKEN": True,
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": CODE_SECONDS,
    "PKCE_REQUIRED": True,
    "REQUEST_APPROVAL_PROMPT": "force",
    # `keys.agents.clients` decides which redirect URIs are allowed: http on loopback only.
    "ALLOWED_REDIRECT_URI_SCHEMES": ["https", "http"],
    "ALLOW_URI_WILDCARDS": False,
    "ALLOW_LOCALHOST_LOOPBACK": True,
    "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
    "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
    "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
    "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
    "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
    "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
    "COMPLIANT_BCP_RFC9700_REFRESH_TOKEN": True,
    "COMPLIANT_BCP_RFC9700_REDIRECT_URI_MATCHING": True,
    "COMPLIANT_BCP_RFC9700_PKCE_REQUIRED": True,
    # RFC 8252 section 7.3: native apps receive the redirect on loopback, without TLS.
    "COMPLIANT_BCP_RFC9700_REDIRECT_URI_SCHEME": False,
    "OIDC_ENABLED": False,
    "DCR_ENABLED": False,  # the gateway has a registration endpoint of its own, which issues no tokens
    "CIMD_ENABLED": False,  # the gateway fetches metadata documents itself, from allowed hosts only
}
"""The value of `OAUTH2_PROVIDER`. `keys.agents.scopes` declares the scopes."""
