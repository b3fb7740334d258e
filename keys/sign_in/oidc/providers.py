"""What a configured provider says of itself (OpenID Connect Discovery 1.0) and the keys that it signs with.

Each process keeps both in memory: a shared cache would have to be trusted like the keys. An unknown key has them
fetched again, but not more often than once in a minute, since anybody can send a token that names one.
"""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from django.conf import settings
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from audit.webhooks.download import NotFetched, fetch_json
from core.configuration_sections import OidcProvider
from core.errors import NotFound, ServiceUnavailable
from core.shapes import Json
from core.text.messages import message

_MAX_BYTES: Final = 256 * 1024
_LIFETIME: Final = 3600.0
_PAUSE: Final = 60.0
"""Seconds between two times that the keys are fetched."""
_SILENCE: Final = 10.0
"""Seconds for which a provider that did not answer is not asked again: each request would wait for it."""
_NEEDED: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class ProviderSilent(ServiceUnavailable):
    """The provider, or what it says of itself, cannot be used; `why` is for administrators."""

    def __init__(self, provider: OidcProvider, why: str) -> None:
        super().__init__(message("The sign-in provider does not answer as it should. Try again later."), retry_after=60)
        self.provider, self.why = provider.Name, why


@dataclass(slots=True)
class _Fetched:
    lock: threading.Lock = field(default_factory=threading.Lock)
    metadata: Json = field(default_factory=dict)
    metadata_at: float = -_LIFETIME
    why_silent: str = ""
    silent_until: float = 0.0
    keys: KeySet | None = None
    keys_at: float = -_LIFETIME


_fetched: dict[OidcProvider, _Fetched] = {}


def find_provider(name: str) -> OidcProvider:
    """The configured provider of this name; raises NotFound."""
    for provider in settings.CONFIGURATION.SignIn.Oidc:
        if provider.Name == name:
            return provider
    raise NotFound


def label_of(provider: OidcProvider) -> str:
    return provider.Label or provider.Name


def metadata_of(provider: OidcProvider) -> Json:
    """The provider's metadata, at most an hour old, older ones while it is away; raises ProviderSilent."""
    fetched = _fetched.setdefault(provider, _Fetched())
    with fetched.lock:
        if time.monotonic() < fetched.silent_until:
            raise ProviderSilent(provider, fetched.why_silent)
        if time.monotonic() - fetched.metadata_at >= _LIFETIME:
            try:
                fetched.metadata = _fetch_metadata(provider)
            except ProviderSilent as silent:
                if not fetched.metadata:
                    fetched.why_silent, fetched.silent_until = silent.why, time.monotonic() + _SILENCE
                    raise
            fetched.metadata_at = time.monotonic()
        return fetched.metadata


def keys_of(provider: OidcProvider, kid: str | None) -> KeySet:
    """The provider's keys, fetched again if none is `kid`; raises ProviderSilent."""
    uri = metadata_of(provider)["jwks_uri"]
    fetched = _fetched[provider]
    with fetched.lock:
        age = time.monotonic() - fetched.keys_at
        is_unknown = fetched.keys is None or (kid is not None and all(key.kid != kid for key in fetched.keys.keys))
        if age >= _LIFETIME or (is_unknown and age >= _PAUSE):
            fetched.keys_at = time.monotonic()
            try:
                fetched.keys = _fetch_keys(provider, uri)
            except ProviderSilent:
                if is_unknown:
                    raise
        if fetched.keys is None:
            raise ProviderSilent(provider, "its keys could not be fetched a moment ago")
        return fetched.keys


def exchange_code(provider: OidcProvider, form: dict[str, str], headers: dict[str, str]) -> Json:
    """The answer of the token endpoint; raises NotFetched."""
    answer = fetch_json(metadata_of(provider)["token_endpoint"], max_bytes=_MAX_BYTES, form=form, headers=headers)
    if not isinstance(answer, dict):
        raise NotFetched("its answer is no object")
    return answer


def secret_of(provider: OidcProvider) -> str | None:
    """The client's secret; None for a public client. The file is read each time, so that it can be exchanged."""
    if not provider.ClientSecretFile:
        return None
    try:
        return Path(provider.ClientSecretFile).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise ProviderSilent(provider, f"the file with the client's secret cannot be read: {error}") from error


def _fetch_metadata(provider: OidcProvider) -> Json:
    url = f"{provider.Issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        found = fetch_json(url, max_bytes=_MAX_BYTES)
    except NotFetched as error:
        raise ProviderSilent(provider, str(error)) from error
    if not isinstance(found, dict) or found.get("issuer") != provider.Issuer:
        raise ProviderSilent(provider, "its metadata are those of another issuer")
    schemes = ("https://", "http://") if settings.CONFIGURATION.Webhooks.AllowPlainHttp else ("https://",)
    for name in (*_NEEDED, *({"end_session_endpoint"} & found.keys())):
        if not isinstance(found.get(name), str) or not found[name].startswith(schemes):
            raise ProviderSilent(provider, f"its {name} is missing, or no https address")
    return found


def _fetch_keys(provider: OidcProvider, uri: str) -> KeySet:
    try:
        found = fetch_json(uri, max_bytes=_MAX_BYTES)
        usable = [
            key
            for key in found["keys"]
            if key.get("kty") in ("RSA", "EC") and key.get("use", "sig") == "sig" and "d" not in key
        ]
        return KeySet.import_key_set({"keys": usable})
    except (NotFetched, JoseError, TypeError, KeyError, AttributeError, ValueError) as error:
        raise ProviderSilent(provider, f"its keys cannot be read: {error}") from error
