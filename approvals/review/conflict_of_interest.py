"""Who may decide a change request besides holding the permission: nobody who stands behind it by a second self.

Whoever issued, rotated, re-owned or widened the key that asks does not decide, nor does anybody whose account the
requester made or changed (`Approvals:IssuerBarDays`). That is read from the operations log, which nobody can change: a
record is made with each of these changes, in the same transaction.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from approvals.models import ChangeRequest
from approvals.review.scope_filter import reaches
from audit.identifiers import identifier_bounds
from audit.model_changes.descriptions import find_audited_model
from audit.models import OperationRecord, Outcome
from core.shapes import parse_guid
from core.text.messages import message
from keys.models import ApiKey, Person

_TAKES_OVER = frozenset({"password", "secondFactor", "owner", "value"})
"""What gives somebody a person's account, or a key, without its being allowed more."""
_FIRST_STEPS = frozenset({"api-keys.create", "people.create"})
_CHANGES_AN_ACCOUNT = _TAKES_OVER | {"permissions", "groups", "active", "superuser", "staff"}


def conflict_reason(person_id: int | None, request: ChangeRequest) -> str | None:
    """In a sentence, why a person may not decide a request of somebody else; None when they may."""
    return ConflictChecker(person_id).why(request)


class ConflictChecker:
    """Why one person may not decide requests, for many of them: requests of one key are looked up once.

    Good for one answer: the log goes on. Older requests are to be asked about first, or they are looked up again.
    """

    def __init__(self, person_id: int | None) -> None:
        self._person_id = person_id
        self._behind: dict[tuple[str, int], _KeyHistory] = {}
        self._ancestors: dict[datetime, set[int]] = {}

    def why(self, request: ChangeRequest) -> str | None:
        """In a sentence, why the person may not decide this request of somebody else; None when they may."""
        days = settings.CONFIGURATION.Approvals.IssuerBarDays
        if not days or self._person_id is None:
            return None
        since = request.created_at - timedelta(days=days)
        key = (request.key_id, request.requester_id)
        seen = self._behind.get(key)
        if seen is None or seen.since > since:
            seen = self._behind[key] = _KeyHistory(since, _behind_the_key(request, since))
        if any(person == self._person_id and at >= since for person, at in seen.people):
            return message(
                "You issued, rotated or widened the key that asks, or the rights it acts with, within {days} days "
                "before.",
                days=days,
            )
        if self._is_made_by(request.requester_id, since):
            return message("Your account was made or changed by whoever asks, within {days} days before.", days=days)
        return None

    def _is_made_by(self, requester_id: int, since: datetime) -> bool:
        """Whether the requester made the person's account. No match since an earlier date
        implies none since a later one."""
        assert self._person_id is not None
        earlier = [moment for moment in self._ancestors if moment <= since]
        if earlier and requester_id not in self._ancestors[max(earlier)]:
            return False
        if since not in self._ancestors:
            self._ancestors[since] = _account_ancestors(self._person_id, since)
        return requester_id in self._ancestors[since]


@dataclass(frozen=True, slots=True)
class _KeyHistory:
    """Who stood behind a key since a moment, each with when."""

    since: datetime
    people: list[tuple[int, datetime]]


def find_deciders(request: ChangeRequest, *, among: str | None = None) -> list[str]:
    """The user names of the active people who may decide a request, some of them at most, by name.

    `among` looks at the one person of that name alone.
    """
    others = active_deciders().exclude(pk=request.requester_id)
    if among is not None:
        others = others.filter(username=among)
    return [
        person.username
        for person in others[:50]
        if conflict_reason(person.pk, request) is None and reaches(person, request)
    ]


def find_people_who_decide(*, besides: int) -> list[str]:
    """The user names of active people other than one who may decide on changes at all, some of them at most."""
    return [person.username for person in active_deciders().exclude(pk=besides)[:5]]


def find_deciders_for(owner: int, *, besides: int) -> list[str]:
    """Who could decide what a key of this owner asks for, were it issued now by the person `besides`."""
    asked = ChangeRequest(requester_id=owner, created_at=timezone.now(), key_id="")
    others = active_deciders().exclude(pk__in=(owner, besides))
    return [person.username for person in others[:50] if conflict_reason(person.pk, asked) is None]


def active_deciders() -> QuerySet[Person]:
    """The active people who may decide change requests at all, by name."""
    may_decide = Person.objects.with_perm(
        "approvals.decide_change", backend="django.contrib.auth.backends.ModelBackend"
    )
    return may_decide.order_by("username")


def _behind_the_key(request: ChangeRequest, since: datetime) -> list[tuple[int, datetime]]:
    """Who made the key, its role, its owner or the groups of its owner what they are, and when."""
    people = []
    targets: list[UUID] = []
    key_id = parse_guid(request.key_id)
    key = ApiKey.objects.filter(pk=key_id).first() if key_id else None
    if key is not None:
        targets += [key.pk, key.role_id]
        if key.created_by_id is not None and key.created_at >= since:  # issued before there was a record of it
            people.append((key.created_by_id, key.created_at))
    if request.agent and key_id is not None:  # then it is the grant that the agent acts by
        targets.append(key_id)
    targets += _targets_of(request.requester_id)
    return people + _who_changed(targets, since, by=_TAKES_OVER)


def _account_ancestors(person_id: int, since: datetime) -> set[int]:
    """Who made or changed a person's account, who made or changed theirs, and so on."""
    ancestors: set[int] = set()
    new = {person_id}
    while new:
        targets = [target for person in new for target in _targets_of(person)]
        new = {person for person, _ in _who_changed(targets, since, by=_CHANGES_AN_ACCOUNT)} - ancestors - {person_id}
        ancestors |= new
    return ancestors


def _targets_of(person_id: int) -> list[UUID]:
    """What the log calls a person, the groups that give them permissions, and the directory they sign in with."""
    person = Person.objects.filter(pk=person_id).first()
    if person is None:
        return []
    of_groups = find_audited_model("permission-groups").id_of
    directory = [person.connection_id] if person.connection_id else []
    return [person.public_id, *directory, *(of_groups(group) for group in person.groups.all())]


def _who_changed(targets: Iterable[UUID], since: datetime, *, by: frozenset[str]) -> list[tuple[int, datetime]]:
    """Who made one of these things, let it do more, or changed what is named, and when; their own account is
    everybody's."""
    records = OperationRecord.objects.filter(
        target_id__in=list(targets), id__gte=identifier_bounds(since)[0], outcome=Outcome.SUCCEEDED
    ).filter(target_kind__in=("api-keys", "agents", "roles", "people", "permission-groups", "directories"))
    return [
        (record.owner_id, record.at)
        for record in records.only("owner_id", "at", "operation", "changes", "raised_access")
        if record.operation in _FIRST_STEPS
        or record.raised_access
        or not record.changes  # of before the values were recorded: it may have been anything
        or any(change["attribute"] in by for change in record.changes)
    ]
