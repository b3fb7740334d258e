"""The life of a grant: a consent creates it, a code redeems it, each refresh extends it, and it ends.

Each step is one conditional UPDATE, so that one of two simultaneous attempts wins. Ending a grant ends its tokens. A
sweep ends grants whose code was never redeemed, and deletes unused clients and old tokens.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from oauth2_provider.models import Grant as AuthorizationCode

from audit.model_changes.recording import call_of_gateway, recorded
from core.call import Call, SupervisionLevel
from core.oauth import CODE_SECONDS, REFRESH_TOKEN_SECONDS
from directory.models import DirectoryConnection
from keys.agents.scopes import permissions_of
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, Ended, stamp_of

_LEVELS = tuple(level.value for level in SupervisionLevel)
"""From the strictest to the freest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a person has agreed to on the consent page, for one audience.

    `refused_scopes` are those that they have taken away; None if the agent has no way to ask.
    """

    person: Person
    connection: DirectoryConnection
    scopes: tuple[str, ...]
    audience: str
    refused_scopes: frozenset[str] | None = None


def digest_of(secret: str) -> str:
    """What is stored of a code or a token. Both are long and random, so a plain SHA-256 reveals nothing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def begin(client: AgentClient, consent: Consent, *, code_digest: str | None) -> AgentGrant:
    """Create the grant of a consent, whose code is yet to be redeemed. Joins the caller's transaction and record."""
    now = timezone.now()
    refused = consent.refused_scopes
    if refused is not None:
        refused |= refused_before(client, consent.person) - set(consent.scopes)
    return AgentGrant.objects.create(
        person=consent.person,
        client=client,
        connection=consent.connection,
        scopes=list(consent.scopes),
        permissions=sorted(permissions_of(consent.scopes)),
        refused_scopes=None if refused is None else sorted(refused),
        supervision_level=_initial_level(client, consent.person),
        code_digest=code_digest,
        person_stamp=stamp_of(consent.person.password, consent.person.session_epoch),
        created_at=now,
        expires_at=now + timedelta(seconds=CODE_SECONDS),
    )


def refused_before(client: AgentClient, person: Person) -> frozenset[str]:
    """The scopes that the person has taken away from this agent and not given back; none once they have ended it."""
    return frozenset(_living_of(client, person).values_list("refused_scopes", flat=True).first() or ())


def note_refusal(call: Call, client: AgentClient, person: Person, scopes: Iterable[str]) -> None:
    """Remember that a person has refused what an agent of theirs asked for besides what it may do."""
    for grant in _living_of(client, person).filter(refused_scopes__isnull=False):
        with recorded(call, grant, operation="agents.update"):
            refused = {*(grant.refused_scopes or ()), *scopes} - set(grant.scopes)
            AgentGrant.objects.filter(pk=grant.pk).update(refused_scopes=sorted(refused))


def _living_of(client: AgentClient, person: Person) -> QuerySet[AgentGrant]:
    """The grants of an agent that its person has not ended, newest first."""
    return AgentGrant.objects.filter(client=client, person=person, ended_at__isnull=True).order_by("-created_at")


def _initial_level(client: AgentClient, person: Person) -> str:
    """The default level, or a stricter one that an administrator has set for an earlier grant of this agent.

    Otherwise the person could undo that by consenting again. A freer level was meant for the earlier consent only.
    """
    known = AgentGrant.objects.filter(client=client, person=person).values_list("supervision_level", flat=True)
    usual = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value
    return min({usual, *known}, key=_LEVELS.index)


def is_freer(level: str, *, than: str) -> bool:
    """Whether a level holds fewer changes than another one."""
    return _LEVELS.index(level) > _LEVELS.index(than)


def redeem_code(code_digest: str) -> AgentGrant | None:
    """The grant of a code that is presented for the first time; None for any other code.

    A code that is presented again has been stolen or leaked, so its grant ends (RFC 6749 section 4.1.2).
    """
    grant = AgentGrant.objects.select_related("person", "client").filter(code_digest=code_digest).first()
    if grant is None:
        return None
    if AgentGrant.objects.filter(pk=grant.pk, code_used_at__isnull=True).update(code_used_at=timezone.now()):
        return grant if grant.state == "active" else None
    end_with_record(grant, Ended.CODE_REUSED)
    return None


def extend(grant: AgentGrant) -> bool:
    """Extend a grant whose agent has come back; False if it has ended. Joins the caller's transaction."""
    living = AgentGrant.objects.filter(pk=grant.pk, ended_at__isnull=True)
    return bool(living.update(expires_at=timezone.now() + timedelta(seconds=REFRESH_TOKEN_SECONDS)))


def end(grant_id: UUID, reason: Ended, *, by_id: int | None = None) -> bool:
    """End a grant and its tokens for good; False if it had ended. Joins the caller's transaction and record."""
    living = AgentGrant.objects.filter(pk=grant_id, ended_at__isnull=True)
    ended = living.update(ended_at=timezone.now(), ended_for=reason, ended_by_id=by_id)
    AgentAccessToken.objects.filter(grant_id=grant_id).delete()
    AgentRefreshToken.objects.filter(grant_id=grant_id).delete()
    return bool(ended)


def end_each(call: Call, living: Iterable[AgentGrant], reason: Ended) -> None:
    """End several grants, each with a log record of its own."""
    with recorded(call, operation="agents.revoke") as administration:
        for grant in living:
            administration.watch_row(grant)
            end(grant.pk, reason, by_id=call.person.id)


def end_with_record(grant: AgentGrant, reason: Ended) -> None:
    """End a grant in the gateway's own name, with a log record: no signed-in person has asked for it."""
    call = call_of_gateway(f"The agent {grant.client.name} of {grant.person.username}: {reason.label}.")
    with recorded(call, grant, operation="agents.revoke"):
        end(grant.pk, reason)


REPEATABLE_SECONDS = 30
"""How long a used refresh token is answered with the same pair again."""
UNUSED_FOR = timedelta(hours=24)
"""A client that registered itself and got no grant is deleted after this time."""
KEPT_FOR = timedelta(days=90)
"""How long an ended or expired grant is still shown."""
_AT_ONCE = 500
"""Rows of one kind per sweep. The next sweep follows in seconds."""


def sweep() -> None:
    """End and delete what is due. Simultaneous sweeps do no harm."""
    if not settings.CONFIGURATION.Agents.Enabled:
        return
    now = timezone.now()
    _end_grants(now)
    over = Q(ended_at__lte=now - KEPT_FOR) | Q(expires_at__lte=now - KEPT_FOR)
    for grant in AgentGrant.objects.filter(over)[:_AT_ONCE]:
        _forget(grant, f"Over for {KEPT_FOR.days} days.")
    for client in unused_clients().filter(created__lte=now - UNUSED_FOR)[:_AT_ONCE]:
        _forget(client, "Registered and not used.")
    for client in AgentClient.objects.filter(redirect_uris="", grants__isnull=True)[:_AT_ONCE]:
        _forget(client, "Made for a token that is over.")
    AuthorizationCode.objects.filter(expires__lte=now).delete()
    # Used refresh tokens are kept until they would have expired: one that comes back gives a thief away.
    AgentRefreshToken.objects.filter(revoked__lte=now - timedelta(seconds=REFRESH_TOKEN_SECONDS)).delete()
    told = AgentRefreshToken.objects.exclude(successor_salt="")
    told.filter(revoked__lte=now - 2 * timedelta(seconds=REPEATABLE_SECONDS)).update(successor_salt="")


def unused_clients() -> QuerySet[AgentClient]:
    """Clients that registered themselves and never got a grant."""
    return AgentClient.objects.filter(registration_source=AgentClient.RegistrationSource.DCR, grants__isnull=True)


def _end_grants(now: datetime) -> None:
    living = AgentGrant.objects.select_related("person", "client").filter(ended_at__isnull=True)
    for grant in living.filter(code_used_at__isnull=True, expires_at__lte=now)[:_AT_ONCE]:
        end_with_record(grant, Ended.NEVER_TAKEN_UP)
    for grant in living.filter(expires_at__gt=now):
        if grant.state == "ended":
            end_with_record(grant, Ended.PERSON_CHANGED)


def _forget(row: Model, reason: str) -> None:
    with recorded(call_of_gateway(reason)) as administration:
        administration.watch_row(row, with_dependents=True)
        row.delete()
