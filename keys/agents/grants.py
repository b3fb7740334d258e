"""How a grant comes and goes: begun by a consent, taken up by its code, prolonged by each refresh, ended.

Each step is one conditional UPDATE, so that of two at the same moment one wins. Whoever ends a grant ends its tokens.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.utils import timezone

from audit.model_changes.recording import recorded
from audit.model_changes.unattended import call_of_gateway
from core.call import Call, SupervisionLevel
from core.oauth import CODE_SECONDS, REFRESH_TOKEN_SECONDS
from directory.models import DirectoryConnection
from keys.agents import scopes as table
from keys.models import Person
from keys.models.agents import AgentAccessToken, AgentClient, AgentGrant, AgentRefreshToken, Ended, stamp_of

_LEVELS = tuple(level.value for level in SupervisionLevel)
"""From strict to free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a person has said yes to on the consent page, for the audience that the page was about."""

    person: Person
    connection: DirectoryConnection
    scopes: tuple[str, ...]
    audience: str


def digest_of(secret: str) -> str:
    """What is stored of a code or a token: with so many random bits there is nothing to guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def begin(client: AgentClient, consent: Consent, *, code_digest: str) -> AgentGrant:
    """The grant of a consent, which its code is still to be taken up for. Joins the caller's transaction and record."""
    now = timezone.now()
    return AgentGrant.objects.create(
        person=consent.person,
        client=client,
        connection=consent.connection,
        scopes=list(consent.scopes),
        permissions=sorted(table.permissions_of(consent.scopes)),
        supervision_level=_first_level(client, consent.person),
        code_digest=code_digest,
        person_stamp=stamp_of(consent.person.password, consent.person.session_epoch),
        created_at=now,
        expires_at=now + timedelta(seconds=CODE_SECONDS),
    )


def _first_level(client: AgentClient, person: Person) -> str:
    """The usual level, or a stricter one that an administrator has set for this agent of this person before.

    Consenting again must not undo that. A freer one was for what was consented to then, and does not come back.
    """
    known = AgentGrant.objects.filter(client=client, person=person).values_list("supervision_level", flat=True)
    usual = SupervisionLevel.ASK_DESTRUCTIVE_SECURITY.value
    return min({usual, *known}, key=_LEVELS.index)


def is_freer(level: str, *, than: str) -> bool:
    """Whether fewer changes wait for a person at a level than at another one."""
    return _LEVELS.index(level) > _LEVELS.index(than)


def take_up(code_digest: str) -> AgentGrant | None:
    """The grant of a code that is presented for the first time, None for any other.

    A code that comes a second time was in two hands: what it gave is ended.
    """
    grant = AgentGrant.objects.select_related("person", "client").filter(code_digest=code_digest).first()
    if grant is None:
        return None
    if AgentGrant.objects.filter(pk=grant.pk, code_used_at__isnull=True).update(code_used_at=timezone.now()):
        return grant if grant.state == "active" else None
    end_by_itself(grant, Ended.CODE_REUSED)
    return None


def prolong(grant: AgentGrant) -> bool:
    """Note that the agent has come back; False when the grant has ended meanwhile. Joins the caller's transaction."""
    living = AgentGrant.objects.filter(pk=grant.pk, ended_at__isnull=True)
    return bool(living.update(expires_at=timezone.now() + timedelta(seconds=REFRESH_TOKEN_SECONDS)))


def end(grant_id: UUID, reason: Ended, *, by_id: int | None = None) -> bool:
    """End a grant and its tokens for good; False when it was over. Joins the caller's transaction and record."""
    living = AgentGrant.objects.filter(pk=grant_id, ended_at__isnull=True)
    ended = living.update(ended_at=timezone.now(), ended_for=reason, ended_by_id=by_id)
    AgentAccessToken.objects.filter(grant_id=grant_id).delete()
    AgentRefreshToken.objects.filter(grant_id=grant_id).delete()
    return bool(ended)


def end_each(call: Call, living: Iterable[AgentGrant], reason: Ended) -> None:
    """End several grants, each with a record of its own beside that of what they are ended along with."""
    with recorded(call, operation="agents.revoke") as administration:
        for grant in living:
            administration.watch_row(grant)
            end(grant.pk, reason, by_id=call.person.id)


def end_by_itself(grant: AgentGrant, reason: Ended) -> None:
    """End a grant with a record of its own, for what nobody signed in has asked for."""
    call = call_of_gateway(f"The agent {grant.client.name} of {grant.person.username}: {reason.label}.")
    with recorded(call, operation="agents.revoke") as administration:
        administration.watch_row(grant)
        end(grant.pk, reason)
