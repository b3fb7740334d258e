"""The OAuth 2.1 server of agents: authorization codes with PKCE and refresh tokens, no other grant types.

Every client is public. Codes and refresh tokens work once; presenting one again ends its grant. But clients with
several threads refresh twice at once, so for seconds a used refresh token is answered with the same pair again. Every
token has one audience, the endpoint that the person consented for, even if no resource was named and whatever a refresh
asks for. Only digests of codes and tokens are stored.

An authorization request is read from the URL alone, when the consent page is shown and again when the person has
decided, so that a posted form cannot change it. An answer goes to a registered redirect URI or nowhere.
"""

import hmac
import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext
from oauth2_provider.models import Grant as AuthorizationCode
from oauth2_provider.models import set_token_value
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2 import (
    AuthorizationCodeGrant,
    AuthorizationEndpoint,
    BearerToken,
    FatalClientError,
    OAuth2Error,
    RefreshTokenGrant,
    RevocationEndpoint,
    TokenEndpoint,
)
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256

from core.database import shared_clock
from core.oauth import ACCESS_TOKEN_SECONDS, CODE_SECONDS
from keys.agents import clients, grants
from keys.agents.metadata import audience_of, is_audience, issuer_of
from keys.agents.scopes import DEFAULT_SCOPE, SCOPES, known_scopes
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, Ended

AUDIENCE = "gateway-audience"
"""A header of our own that passes the audience of the request's host to oauthlib; clients cannot set it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentRequest:
    """A valid authorization request, to be put to a person."""

    client: AgentClient
    redirect_uri: str
    state: str | None
    scopes: list[str]


class UnanswerableRequest(Exception):
    """The request has no trustworthy redirect URI, so that only the person at the page can be told."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class RefusedByRedirect(Exception):
    """The request is wrong, and a redirect to `location` tells the agent.

    `is_trusted` if `location` is on the person's own machine or an administrator has registered it. Other redirects are
    not followed unasked, or the gateway would be an open redirector (RFC 9700 section 4.11.2).
    """

    def __init__(self, location: str, why: str, *, is_trusted: bool) -> None:
        super().__init__(location)
        self.location, self.why, self.is_trusted = location, why, is_trusted


class InvalidTarget(errors.OAuth2Error):
    """The request names a resource other than this gateway's agent endpoint (RFC 8707 section 2)."""

    error = "invalid_target"
    description = "Tokens are issued for this gateway's agent endpoint only."


def read_consent_request(request: HttpRequest) -> ConsentRequest:
    """Read the authorization request of an agent; raises UnanswerableRequest or RefusedByRedirect."""
    clients.fetch_client_metadata(request.GET.get("client_id", ""))
    try:
        scopes, facts = oauth().read_authorization_request(request)
    except FatalClientError as error:
        raise UnanswerableRequest(error.description or error.error) from None
    except ValueError:  # an ambiguous or undecodable query
        raise UnanswerableRequest(gettext("The address cannot be read.")) from None
    except OAuth2Error as error:
        if not error.redirect_uri:
            raise UnanswerableRequest(error.description or error.error or "") from None
        raise _refusal_by_redirect(request, error.redirect_uri, error.state, error) from None
    asked = ConsentRequest(
        client=facts["request"].client,
        redirect_uri=facts["redirect_uri"],
        state=facts["state"],
        scopes=known_scopes(scopes),
    )
    try:
        require_audience(request, request.GET.getlist("resource"))
    except OAuth2Error as error:
        raise _refusal_by_redirect(request, asked.redirect_uri, asked.state, error) from None
    return asked


def answer_with_code(request: HttpRequest, asked: ConsentRequest, consent: grants.Consent) -> tuple[str, AgentGrant]:
    """The redirect that takes the code of a consent to the agent, and the new grant.

    Joins the caller's transaction. Raises RefusedByRedirect if the request is no longer valid.
    """
    location, grant = oauth().issue_code(request, asked.redirect_uri, asked.state, consent)
    location = _with_parameters(request, location, {})
    if grant is None:
        raise RefusedByRedirect(
            location, gettext("The request of the agent is wrong."), is_trusted=clients.is_loopback(location)
        )
    return location, grant


def answer_with_denial(request: HttpRequest, asked: ConsentRequest) -> str:
    """The redirect that tells the agent that the person has refused."""
    state = {"state": asked.state} if asked.state else {}
    return _with_parameters(request, asked.redirect_uri, {"error": "access_denied", **state})


def require_audience(request: HttpRequest, resources: Iterable[str]) -> None:
    """Raise InvalidTarget if a request asks for tokens for another resource. No resource means the endpoint."""
    if not all(is_audience(request, resource) for resource in resources):
        raise InvalidTarget


def _refusal_by_redirect(
    request: HttpRequest, redirect_uri: str, state: str | None, error: OAuth2Error
) -> RefusedByRedirect:
    answer = {"error": error.error or "invalid_request", "error_description": error.description or ""}
    location = _with_parameters(request, redirect_uri, {**answer, **({"state": state} if state else {})})
    registered_by_hand = AgentClient.objects.filter(
        client_id=request.GET.get("client_id", ""), registration_source=AgentClient.RegistrationSource.MANUAL
    )
    is_trusted = clients.is_loopback(redirect_uri) or registered_by_hand.exists()
    return RefusedByRedirect(location, error.description or error.error or "", is_trusted=is_trusted)


def _with_parameters(request: HttpRequest, address: str, parameters: dict[str, str]) -> str:
    """The URL with further parameters and the issuer (RFC 9207), which replaces any `iss` in the URL."""
    parts = urlsplit(address)
    known = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "iss"]
    added = [(name, value) for name, value in parameters.items() if value]
    query = urlencode([*known, *added, ("iss", issuer_of(request))])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


class AgentOAuth(OAuthLibCore):
    """Passes Django's requests to the server."""

    def __init__(self) -> None:
        super().__init__(AgentServer(AgentValidator()))

    def extract_headers(self, request: HttpRequest) -> dict[str, str]:
        """Only what the server needs: no credential, no cookie, and the audience as this host knows it."""
        return {"Content-Type": request.META.get("CONTENT_TYPE", ""), AUDIENCE: audience_of(request)}

    def read_authorization_request(self, request: HttpRequest) -> tuple[list[str], dict[str, Any]]:
        """The requested scopes and the other parameters; raises FatalClientError, OAuth2Error, or ValueError."""
        scopes, facts = self.server.validate_authorization_request(
            self._get_escaped_full_path(request), http_method="GET", headers=self.extract_headers(request)
        )
        return scopes, facts

    def issue_code(
        self, request: HttpRequest, redirect_uri: str, state: str | None, consent: grants.Consent
    ) -> tuple[str, AgentGrant | None]:
        """The redirect with the answer, and the grant of its code; no grant if the answer is an error."""
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
    """The server of this process, which is stateless."""
    return AgentOAuth()


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


class _CodeGrant(AuthorizationCodeGrant):
    """Without the PKCE method `plain`, the default for a challenge without a method (RFC 7636 section 4.3)."""

    _code_challenge_methods = {"S256": code_challenge_method_s256}


_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""SHA-256 in base64url without padding (RFC 7636 section 4.2)."""


def _require_challenge(request: Any) -> dict[str, Any]:
    """Refuse a challenge that no verifier could match, since it is no SHA-256."""
    if not _CHALLENGE.fullmatch(request.code_challenge or ""):
        raise errors.InvalidRequestError(description="Malformed code_challenge.", request=request)
    return {}


class AgentValidator(OAuth2Validator):
    """The callbacks of oauthlib. `request` is oauthlib's, with the parameters as attributes."""

    # --- clients

    def _load_application(self, client_id: Any, request: Any) -> AgentClient | None:
        client = clients.find_client(client_id)
        usable = client is not None and client.is_usable(request) and settings.CONFIGURATION.Agents.Enabled
        request.client = client if usable else None
        return request.client  # type: ignore[no-any-return]

    def client_authentication_required(self, request: Any) -> bool:
        """Clients have no secrets: the code's PKCE verifier and the refresh token stand in for them."""
        return False

    def authenticate_client(self, request: Any) -> bool:
        return False

    def authenticate_client_id(self, client_id: Any, request: Any) -> bool:
        return self._load_application(client_id, request) is not None

    def validate_redirect_uri(self, client_id: Any, redirect_uri: Any, request: Any) -> bool:
        return clients.is_registered_redirect_uri(redirect_uri, request.client.redirect_uris.split())

    def is_origin_allowed(self, client_id: Any, origin: Any, request: Any) -> bool:
        return False

    # --- scopes

    def get_default_scopes(self, client_id: Any, request: Any) -> list[str]:
        return [DEFAULT_SCOPE]

    def validate_scopes(self, client_id: Any, scopes: list[str], client: Any, request: Any) -> bool:
        return bool(scopes) and set(scopes) <= SCOPES.keys()

    # --- codes

    def save_authorization_code(self, client_id: Any, code: Any, request: Any) -> None:
        """Store the digest of a consent's code, and create the grant."""
        consent: grants.Consent = request.consent
        digest = grants.digest_of(code["code"])
        AuthorizationCode.objects.create(
            application=request.client,
            user=consent.person,
            code=digest,
            expires=timezone.now() + timedelta(seconds=CODE_SECONDS),
            redirect_uri=request.redirect_uri,
            scope=" ".join(consent.scopes),
            code_challenge=request.code_challenge,
            code_challenge_method=request.code_challenge_method,
            resource=[consent.audience],
        )
        request.made.append(grants.begin(request.client, consent, code_digest=digest))

    def validate_code(self, client_id: Any, code: str, client: Any, request: Any) -> bool:
        """Redeem the code. It cannot be used again, whatever else is wrong with the request."""
        digest = grants.digest_of(code)
        grant = grants.redeem_code(digest)
        kept = AuthorizationCode.objects.filter(code=digest, application=client).first()
        if grant is None or kept is None or kept.is_expired() or grant.client_id != client.pk:
            return False
        if kept.resource != [request.headers[AUDIENCE]] or not grant.person.is_active:
            return False
        request.agent_grant, request.kept_code = grant, kept
        request.user, request.scopes = grant.person, kept.scope.split()
        return True

    def get_code_challenge(self, code: str, request: Any) -> str:
        return request.kept_code.code_challenge  # type: ignore[no-any-return]

    def get_code_challenge_method(self, code: str, request: Any) -> str:
        return request.kept_code.code_challenge_method  # type: ignore[no-any-return]

    def confirm_redirect_uri(self, client_id: Any, code: str, redirect_uri: str, client: Any, request: Any) -> bool:
        return redirect_uri == request.kept_code.redirect_uri  # type: ignore[no-any-return]

    def invalidate_authorization_code(self, client_id: Any, code: str, request: Any) -> None:
        request.kept_code.delete()

    # --- tokens

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any) -> bool:
        """Whether the refresh token is good. `save_bearer_token` marks it as used."""
        tokens = AgentRefreshToken.objects.select_related("access_token", "grant__client", "grant__person")
        token = tokens.filter(token_checksum=grants.digest_of(refresh_token), application=client).first()
        if token is None:
            return False
        current = token if token.revoked is None else _successor_of(token, refresh_token)
        if current is None:
            grants.end_with_record(token.grant, Ended.REFRESH_REUSED)
            return False
        if token.grant.state != "active" or not token.grant.person.is_active or current.access_token is None:
            return False
        if token.resource != [request.headers[AUDIENCE]]:
            return False
        request.agent_grant, request.refresh_token_instance = token.grant, token
        request.original_scope = current.access_token.scope
        request.user = token.grant.person
        return True

    def get_original_scopes(self, refresh_token: str, request: Any) -> str:
        """The scopes of the previous access token: once narrowed, a grant stays narrow."""
        return request.original_scope  # type: ignore[no-any-return]

    def save_bearer_token(self, token: Any, request: Any) -> None:
        """Replace the previous pair of tokens by the digests of a new one; twice at once, answer with the same one."""
        grant: AgentGrant = request.agent_grant
        before: AgentRefreshToken | None = getattr(request, "refresh_token_instance", None)
        try:
            with transaction.atomic():
                # This also locks the row: whoever ends the grant now waits, and then deletes the new tokens too.
                if not grants.extend(grant):
                    raise errors.InvalidGrantError(request=request)
                if before is not None and not _take(before, request.refresh_token, token):
                    return
                AgentAccessToken.objects.filter(grant=grant).delete()
                self._save_pair(token, request.client, grant, audience=request.headers[AUDIENCE])
        except _Replayed:
            grants.end_with_record(grant, Ended.REFRESH_REUSED)
            raise errors.InvalidGrantError(request=request) from None

    def _save_pair(self, token: Any, client: AgentClient, grant: AgentGrant, *, audience: str) -> None:
        shared = {"application": client, "grant": grant, "resource": [audience]}
        access = AgentAccessToken(
            scope=token["scope"], expires=timezone.now() + timedelta(seconds=ACCESS_TOKEN_SECONDS), **shared
        )
        set_token_value(access, token["access_token"])
        access.save()
        refresh = AgentRefreshToken(access_token=access, token_family=grant.pk, **shared)
        set_token_value(refresh, token["refresh_token"])
        refresh.save()

    def revoke_token(self, token: str, token_type_hint: Any, request: Any) -> None:
        """End the grant of an access or refresh token (RFC 7009). Ignore unknown tokens and those of other clients."""
        wanted = {"token_checksum": grants.digest_of(token), "application": request.client}
        for kind in (AgentRefreshToken, AgentAccessToken):
            found = kind.objects.select_related("grant__client", "grant__person").filter(**wanted).first()
            if found is not None:
                grants.end_with_record(found.grant, Ended.BY_AGENT)
                return


def _take(used: AgentRefreshToken, value: str, pair: Any) -> bool:
    """Mark a refresh token as used and derive the next pair; False if `pair` is the one that it has bought already.

    Joins the caller's transaction, which has locked the grant; raises _Replayed.
    """
    salt = secrets.token_hex(32)
    unused = AgentRefreshToken.objects.filter(pk=used.pk, revoked__isnull=True)
    if unused.update(revoked=shared_clock.now(), access_token=None, successor_salt=salt):
        pair.update(_derive_pair(value, salt))
        return True
    used.refresh_from_db()
    successor = _successor_of(used, value)
    if successor is None or successor.access_token is None:
        raise _Replayed
    access = successor.access_token
    left = max(0, int((access.expires - timezone.now()).total_seconds()))
    pair.update(_derive_pair(value, used.successor_salt), scope=access.scope, expires_in=left)
    return False


def _successor_of(used: AgentRefreshToken, value: str) -> AgentRefreshToken | None:
    """The refresh token that a used one has bought, if that was seconds ago and the successor is not used itself."""
    since = shared_clock.now() - timedelta(seconds=grants.REPEATABLE_SECONDS)
    if used.revoked is None or used.revoked <= since or not used.successor_salt:
        return None
    digest = grants.digest_of(_derive_pair(value, used.successor_salt)["refresh_token"])
    successors = AgentRefreshToken.objects.select_related("access_token").filter(grant=used.grant_id)
    found: AgentRefreshToken | None = successors.filter(token_checksum=digest, revoked__isnull=True).first()
    return found


def _derive_pair(value: str, salt: str) -> dict[str, str]:
    """The pair that a refresh token buys. Neither the token nor the database reveals it without the other."""
    return {
        name: urlsafe_b64encode(hmac.digest(value.encode(), f"{name} {salt}".encode(), "sha256")).decode().rstrip("=")
        for name in ("access_token", "refresh_token")
    }


class _Replayed(Exception):
    """A refresh token was used again, later or after its successor."""
