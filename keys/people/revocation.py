"""Ending all sessions and platform tokens of a person for good, so that none comes back to life with the person.

Deleting what is known of them is not all: `Person.session_epoch` is part of what each session is checked against.
"""

from django.contrib.sessions.models import Session
from django.utils import timezone

from keys.models import AccessToken, PersonSession


def end_all(person_id: int) -> None:
    """End the sessions of a person, whose `session_epoch` has just grown, and revoke their platform tokens."""
    AccessToken.objects.filter(person_id=person_id, revoked_at__isnull=True).update(revoked_at=timezone.now())
    known = PersonSession.objects.filter(person_id=person_id)
    Session.objects.filter(session_key__in=list(known.values_list("session_key", flat=True))).delete()
    known.delete()
