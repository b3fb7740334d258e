"""The authorization code flow with PKCE (RFC 7636), state, nonce and the issuer in the answer (RFC 9207).

What belongs to a flow waits in the browser's session under its `state`, is bound to one provider, and is used once.
"""

import base64
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from audit.webhooks.download import NotFetched
from core.configuration_sections import OidcProvider
from keys.sign_in.oidc.providers import exchange_code, metadata_of, secret_of
from keys.sign_in.oidc.tokens import NotVerified, verify_id_token

_SESSION_KEY: Final = "oidc-flows"
_SECONDS: Final = 600
_MAX_OPEN: Final = 5
"""Flows that one browser may have open, in several tabs."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A verified answer. `trial_of` is the person who only wanted to see it, None for a sign-in."""

    claims: dict[str, Any]
    id_token: str
    next_url: str
    trial_of: int | None


def begin(
    request: HttpRequest, provider: OidcProvider, *, redirect_uri: str, next_url: str, trial_of: int | None = None
) -> str:
    """The provider's address to which the browser goes; raises ProviderSilent."""
    endpoint = metadata_of(provider)["authorization_endpoint"]
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    flow = {
        "provider": provider.Name,
        "nonce": nonce,
        "verifier": verifier,
        "redirect_uri": redirect_uri,
        "until": time.time() + _SECONDS,
        "next": next_url,
        "trial_of": trial_of,
    }
    flows = {**request.session.get(_SESSION_KEY, {}), state: flow}
    request.session[_SESSION_KEY] = dict(list(flows.items())[-_MAX_OPEN:])
    asked = {
        "response_type": "code",
        "client_id": provider.ClientId,
        "redirect_uri": redirect_uri,
        "scope": " ".join(provider.Scopes),
        "state": state,
        "nonce": nonce,
        "code_challenge": create_s256_code_challenge(verifier),
        "code_challenge_method": "S256",
    }
    if provider.AcrValues:
        asked["acr_values"] = " ".join(provider.AcrValues)
    return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(asked, quote_via=quote)}"


def finish(request: HttpRequest, provider: OidcProvider) -> Finished:
    """Verify the provider's answer in the query; raises NotVerified or ProviderSilent."""
    answer = request.GET
    flows = request.session.get(_SESSION_KEY, {})
    flow = flows.pop(answer.get("state", ""), None)
    if flow is None or time.time() > flow["until"]:
        raise NotVerified("no sign-in of this browser has this state")
    request.session[_SESSION_KEY] = flows
    # An answer may come from another provider than the one asked, whose code would then go to the wrong one (mix-up).
    if flow["provider"] != provider.Name:
        raise NotVerified("it answers a sign-in at another provider")
    metadata = metadata_of(provider)
    issuer = answer.get("iss")
    if (issuer is not None or metadata.get("authorization_response_iss_parameter_supported")) and not (
        issuer is not None and constant_time_compare(issuer, provider.Issuer)
    ):
        raise NotVerified("iss names another provider, or nobody")
    if "error" in answer or not answer.get("code"):
        raise NotVerified(f"the provider says {answer.get('error', 'nothing')[:64]}")
    tokens = _exchange(provider, metadata, flow, answer["code"])
    id_token, access_token = tokens.get("id_token"), tokens.get("access_token")
    claims = verify_id_token(provider, id_token, nonce=flow["nonce"], access_token=access_token)
    return Finished(claims, str(id_token), flow["next"], flow["trial_of"])


def _exchange(
    provider: OidcProvider, metadata: Mapping[str, Any], flow: Mapping[str, str], code: str
) -> dict[str, Any]:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": flow["redirect_uri"],
        "code_verifier": flow["verifier"],
        "client_id": provider.ClientId,
    }
    headers, secret = {}, secret_of(provider)
    if secret is not None:
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if "client_secret_basic" in methods:  # RFC 6749 section 2.3.1: both are form-encoded first
            pair = f"{quote(provider.ClientId, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            del form["client_id"]
        else:
            form["client_secret"] = secret
    try:
        return exchange_code(provider, form, headers)
    except NotFetched as error:
        raise NotVerified(f"the code was not exchanged: {error}") from error
