"""Who may decide a change request besides holding the permission: nobody who stands behind it by a second self.

Whoever issued, rotated, re-owned or widened the key that asks does not decide, nor does anybody whose account the
requester made or changed (`Approvals:IssuerBarDays`). That is read from the operations log, which nobody can change: a
record is made with each of these changes, in the same transaction.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from approvals.models import ChangeRequest
from audit.administration.descriptions import find_thing
from audit.identifiers import identifier_bounds
from audit.models import OperationRecord, Outcome
from gateway.core.shapes import parse_guid
from keys.models import ApiKey, Person

_ISSUED = "You issued, rotated or widened the key that asks, or the rights it acts with"
_MADE = "Your account was made or changed by whoever asks"
_TAKES_OVER = frozenset({"password", "secondFactor", "owner", "value"})
"""What gives somebody a person's account, or a key, without its being allowed more."""
_FIRST_STEPS = frozenset({"api-keys.create", "people.create"})
_CHANGES_AN_ACCOUNT = _TAKES_OVER | {"permissions", "groups", "active", "superuser", "staff"}


def why_barred(person_id: int | None, request: ChangeRequest) -> str | None:
    """In a sentence, why a person may not decide a request of somebody else; None when they may."""
    days = settings.CONFIGURATION.Approvals.IssuerBarDays
    if not days or person_id is None:
        return None
    since = request.created_at - timedelta(days=days)
    if person_id in _behind_the_key(request, since):
        return f"{_ISSUED}, within {days} days before."
    if request.requester_id in _makers_of(person_id, since):
        return f"{_MADE}, within {days} days before."
    return None


def find_deciders(request: ChangeRequest) -> list[str]:
    """The user names of the active people who may decide a request, some of them at most, by name."""
    others = _active_deciders().exclude(pk=request.requester_id)
    return [person.username for person in others[:50] if why_barred(person.pk, request) is None]


def find_people_who_decide(*, besides: int) -> list[str]:
    """The user names of active people other than one who may decide on changes at all, some of them at most."""
    return [person.username for person in _active_deciders().exclude(pk=besides)[:5]]


def find_deciders_for(owner: int, *, besides: int) -> list[str]:
    """Who could decide what a key of this owner asks for, were it issued now by the person `besides`."""
    asked = ChangeRequest(requester_id=owner, created_at=timezone.now(), key_id="")
    others = _active_deciders().exclude(pk__in=(owner, besides))
    return [person.username for person in others[:50] if why_barred(person.pk, asked) is None]


def _active_deciders() -> QuerySet[Person]:
    may_decide = Person.objects.with_perm(
        "approvals.decide_change", backend="django.contrib.auth.backends.ModelBackend"
    )
    return may_decide.filter(is_active=True).order_by("username")


def _behind_the_key(request: ChangeRequest, since: datetime) -> set[int]:
    """Who made the key, its role, its owner or the groups of its owner what they are."""
    people = set()
    targets: list[UUID] = []
    key_id = parse_guid(request.key_id)
    key = ApiKey.objects.filter(pk=key_id).first() if key_id else None
    if key is not None:
        targets += [key.pk, key.role_id]
        if key.created_by_id is not None and key.created_at >= since:  # issued before there was a record of it
            people.add(key.created_by_id)
    if request.agent and key_id is not None:  # then it is the grant that the agent acts by
        targets.append(key_id)
    targets += _targets_of(request.requester_id)
    return people | _who_changed(targets, since, by=_TAKES_OVER)


def _makers_of(person_id: int, since: datetime) -> set[int]:
    """Who made or changed a person's account, who made or changed theirs, and so on."""
    makers: set[int] = set()
    new = {person_id}
    while new:
        targets = [target for person in new for target in _targets_of(person)]
        new = _who_changed(targets, since, by=_CHANGES_AN_ACCOUNT) - makers - {person_id}
        makers |= new
    return makers


def _targets_of(person_id: int) -> list[UUID]:
    """What the log calls a person, the groups that give them permissions, and the directory they sign in with."""
    person = Person.objects.filter(pk=person_id).first()
    if person is None:
        return []
    of_groups = find_thing("permission-groups").id_of
    directory = [person.connection_id] if person.connection_id else []
    return [person.public_id, *directory, *(of_groups(group) for group in person.groups.all())]


def _who_changed(targets: Iterable[UUID], since: datetime, *, by: frozenset[str]) -> set[int]:
    """Who made one of these things, let it do more, or changed what is named; their own account is everybody's."""
    records = OperationRecord.objects.filter(
        target_id__in=list(targets), id__gte=identifier_bounds(since)[0], outcome=Outcome.SUCCEEDED
    ).filter(target_kind__in=("api-keys", "agents", "roles", "people", "permission-groups", "directories"))
    return {
        record.owner_id
        for record in records.only("owner_id", "operation", "changes", "raised_access")
        if record.operation in _FIRST_STEPS
        or record.raised_access
        or not record.changes  # of before the values were recorded: it may have been anything
        or any(change["attribute"] in by for change in record.changes)
    }
