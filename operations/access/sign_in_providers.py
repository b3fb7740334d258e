"""The configured providers of OpenID Connect (`SignIn:Oidc`), and whether they answer."""

from django.conf import settings
from typing_extensions import TypedDict

from core.call import Call
from core.configuration_sections import OidcProvider
from core.operation import rest_operation
from keys.sign_in.oidc.providers import ProviderSilent, keys_of, label_of, metadata_of


class SignInProviderRecord(TypedDict):
    name: str
    label: str
    issuer: str
    clientId: str
    claim: str
    claimNames: str
    directory: str | None
    endsSessions: bool
    problem: str | None


class SignInProvidersRecord(TypedDict):
    items: list[SignInProviderRecord]


@rest_operation(
    "sign-in-providers.list", "GET sign-in-providers", "List sign-in providers", permission="keys.view_person"
)
def list_sign_in_providers(_: Call) -> SignInProvidersRecord:
    """List the providers at which people sign in, and what is wrong with them."""
    return {"items": [_record(provider) for provider in settings.CONFIGURATION.SignIn.Oidc]}


def _record(provider: OidcProvider) -> SignInProviderRecord:
    problem, ends_sessions = None, False
    try:
        ends_sessions = "end_session_endpoint" in metadata_of(provider)
        keys_of(provider, None)
    except ProviderSilent as silent:
        problem = silent.why
    return {
        "name": provider.Name,
        "label": label_of(provider),
        "issuer": provider.Issuer,
        "clientId": provider.ClientId,
        "claim": provider.Claim,
        "claimNames": provider.ClaimNames,
        "directory": provider.Directory or None,
        "endsSessions": ends_sessions,
        "problem": problem,
    }
