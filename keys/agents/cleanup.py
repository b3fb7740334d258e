"""What becomes of agents without anybody's doing: grants that nobody took up, clients that nobody used, old tokens."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from oauth2_provider.models import Grant as AuthorizationCode

from audit.model_changes.recording import recorded
from audit.model_changes.unattended import call_of_gateway
from core.oauth import REFRESH_TOKEN_SECONDS
from keys.agents import grants
from keys.models.agents import AgentClient, AgentGrant, AgentRefreshToken, Ended

UNUSED_FOR = timedelta(hours=24)
"""After which a client that registered itself, and that nobody has let do anything, is forgotten."""
KEPT_FOR = timedelta(days=90)
"""For how long a grant that is over is still shown."""
_AT_ONCE = 500
"""Rows of one kind in one sweep. The next one is seconds away."""


def sweep() -> None:
    """End and forget what is due; any number of sweeps at once is harmless."""
    if not settings.CONFIGURATION.Agents.Enabled:
        return
    now = timezone.now()
    _end_grants(now)
    over = Q(ended_at__lte=now - KEPT_FOR) | Q(expires_at__lte=now - KEPT_FOR)
    for grant in AgentGrant.objects.filter(over)[:_AT_ONCE]:
        _forget(grant, f"Over for {KEPT_FOR.days} days.")
    for client in unused_clients().filter(created__lte=now - UNUSED_FOR)[:_AT_ONCE]:
        _forget(client, "Registered and not used.")
    AuthorizationCode.objects.filter(expires__lte=now).delete()
    # Until then a used refresh token that comes back tells of a thief.
    AgentRefreshToken.objects.filter(revoked__lte=now - timedelta(seconds=REFRESH_TOKEN_SECONDS)).delete()


def unused_clients() -> QuerySet[AgentClient]:
    """Clients that registered themselves and were never let do anything."""
    return AgentClient.objects.filter(registration_source=AgentClient.RegistrationSource.DCR, grants__isnull=True)


def _end_grants(now: datetime) -> None:
    living = AgentGrant.objects.select_related("person", "client").filter(ended_at__isnull=True)
    for grant in living.filter(code_used_at__isnull=True, expires_at__lte=now)[:_AT_ONCE]:
        grants.end_by_itself(grant, Ended.NEVER_TAKEN_UP)
    for grant in living.filter(expires_at__gt=now):
        if grant.state == "ended":
            grants.end_by_itself(grant, Ended.PERSON_CHANGED)


def _forget(row: Model, reason: str) -> None:
    with recorded(call_of_gateway(reason)) as administration:
        administration.watch_row(row, with_dependents=True)
        row.delete()
