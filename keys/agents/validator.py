"""What the OAuth server asks of the database: the toolkit's validator with its traps closed.

Every client is public. A code and a refresh token count once, and one that comes a second time ends what it gave. Every
token has one audience, the endpoint that the person consented for: also when no resource was named, and whatever a
refresh asks for. Of codes and tokens only digests are stored.
"""

from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from oauth2_provider.models import Grant as AuthorizationCode
from oauth2_provider.models import set_token_value
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749 import errors

from core.oauth import ACCESS_TOKEN_SECONDS, CODE_SECONDS
from keys.agents import grants, redirects
from keys.agents.metadata_documents import find_client
from keys.agents.scopes import LEAST, SCOPES
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, Ended

AUDIENCE: Final = "gateway-audience"
"""The header in which `server` tells the audience of the request's own host. What a client sends is not passed on."""


class _Replayed(Exception):
    """A refresh token was used a second time."""


class AgentValidator(OAuth2Validator):
    """Called by oauthlib; `request` is its own, with the parameters as attributes."""

    # --- clients

    def _load_application(self, client_id: Any, request: Any) -> AgentClient | None:
        client = find_client(client_id)
        usable = client is not None and client.is_usable(request) and settings.CONFIGURATION.Agents.Enabled
        request.client = client if usable else None
        return request.client  # type: ignore[no-any-return]

    def client_authentication_required(self, request: Any) -> bool:
        """There are no secrets: a client proves itself by the verifier of its code, and by its refresh token."""
        return False

    def authenticate_client(self, request: Any) -> bool:
        return False

    def authenticate_client_id(self, client_id: Any, request: Any) -> bool:
        return self._load_application(client_id, request) is not None

    def validate_redirect_uri(self, client_id: Any, redirect_uri: Any, request: Any) -> bool:
        return redirects.is_registered(redirect_uri, request.client.redirect_uris.split())

    def is_origin_allowed(self, client_id: Any, origin: Any, request: Any) -> bool:
        return False

    # --- scopes

    def get_default_scopes(self, client_id: Any, request: Any) -> list[str]:
        return [LEAST]

    def validate_scopes(self, client_id: Any, scopes: list[str], client: Any, request: Any) -> bool:
        return bool(scopes) and set(scopes) <= SCOPES.keys()

    # --- codes

    def save_authorization_code(self, client_id: Any, code: Any, request: Any) -> None:
        """Keep the code of a consent, with the grant that it will be taken up for."""
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
        """Take the code up. Whatever is found wrong from here on, it does not count again."""
        digest = grants.digest_of(code)
        grant = grants.take_up(digest)
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
        """Whether the token is good for another one. It is taken when that is made: see `save_bearer_token`."""
        tokens = AgentRefreshToken.objects.select_related("access_token", "grant__client", "grant__person")
        token = tokens.filter(token_checksum=grants.digest_of(refresh_token), application=client).first()
        if token is None:
            return False
        if token.revoked is not None:
            grants.end_by_itself(token.grant, Ended.REFRESH_REUSED)
            return False
        if token.grant.state != "active" or not token.grant.person.is_active or token.access_token is None:
            return False
        if token.resource != [request.headers[AUDIENCE]]:
            return False
        request.agent_grant, request.refresh_token_instance = token.grant, token
        request.user = token.grant.person
        return True

    def get_original_scopes(self, refresh_token: str, request: Any) -> str:
        """Those of the access token before: once narrowed, a grant stays narrow."""
        return request.refresh_token_instance.access_token.scope  # type: ignore[no-any-return]

    def save_bearer_token(self, token: Any, request: Any) -> None:
        """Store the digests of a new pair in the place of the one before."""
        grant: AgentGrant = request.agent_grant
        before: AgentRefreshToken | None = getattr(request, "refresh_token_instance", None)
        try:
            with transaction.atomic():
                if not grants.prolong(grant):  # this also lets others wait who end it now
                    raise errors.InvalidGrantError(request=request)
                if before is not None:
                    unused = AgentRefreshToken.objects.filter(pk=before.pk, revoked__isnull=True)
                    if not unused.update(revoked=timezone.now(), access_token=None):
                        raise _Replayed
                AgentAccessToken.objects.filter(grant=grant).delete()
                self._save_pair(token, request.client, grant, audience=request.headers[AUDIENCE])
        except _Replayed:
            grants.end_by_itself(grant, Ended.REFRESH_REUSED)
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
        """End the grant of a token, whichever kind it is (RFC 7009); an unknown one, or another client's, is none."""
        wanted = {"token_checksum": grants.digest_of(token), "application": request.client}
        for kind in (AgentRefreshToken, AgentAccessToken):
            found = kind.objects.select_related("grant__client", "grant__person").filter(**wanted).first()
            if found is not None:
                grants.end_by_itself(found.grant, Ended.BY_AGENT)
                return
