"""Tokens of agents without a browser: their person issues one in place of consenting on a page that the agent opens.

Such an agent has a client of its own without a redirect URI, and one access token that ends with its grant: nothing can
be exchanged for it, and it is not exchanged for another. Everything else holds as for any agent.
"""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone
from oauth2_provider.models import set_token_value
from oauthlib.common import generate_token

from core.configuration_sections import RateLimit
from core.oauth import REFRESH_TOKEN_SECONDS
from core.rate_limits import require_below_limit
from keys.agents import grants
from keys.agents.clients import make_client
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant


def may_be_issued() -> bool:
    """Whether people may make agents of their own; not if only administrators make clients."""
    agents = settings.CONFIGURATION.Agents
    return bool(agents.Enabled and agents.Registration == "open")


def issue(name: str, consent: grants.Consent) -> tuple[AgentGrant, str]:
    """Create an agent with this name and return its grant and its token; raises RateLimited.

    Joins the caller's transaction and record.
    """
    limit = RateLimit(Requests=settings.CONFIGURATION.Agents.RegistrationsPerHour, WindowSeconds=3600)
    require_below_limit("AgentRegistration", f"person {consent.person.pk}", limit)
    client = make_client(name, [], AgentClient.RegistrationSource.MANUAL, created_by=consent.person)
    grant = grants.begin(client, consent, code_digest=None)
    grant.code_used_at = timezone.now()
    grant.expires_at = grant.code_used_at + timedelta(seconds=REFRESH_TOKEN_SECONDS)
    grant.save(update_fields=["code_used_at", "expires_at"])
    value = generate_token(43)
    token = AgentAccessToken(
        application=client,
        grant=grant,
        resource=[consent.audience],
        scope=" ".join(consent.scopes),
        expires=grant.expires_at,
    )
    set_token_value(token, value)
    token.save()
    return grant, value
