"""The sessions of people: how they begin and end, where somebody is signed in, and the platform tokens of a session.

A user name and password are verified in `credentials`; a later request is recognised in `keys.authentication`.
"""

import hashlib
import time
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user, login, logout
from django.contrib.auth.backends import ModelBackend
from django.contrib.sessions.models import Session
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone

from audit import security
from core.call import Call, PersonRef
from core.errors import Forbidden, NotFound
from keys import credential_values
from keys.models import AccessToken, Person, PersonSession
from keys.people.account_status import AccountStatus, account_status, readmit
from keys.sign_in import known_devices, second_factor
from keys.sign_in.credentials import Reason, SignInRefused, client_address, origin_of, verify
from keys.sign_in.session_store import stored_key_of

SEEN_EVERY = timedelta(minutes=1)

_BACKEND = "keys.sign_in.sessions.SessionBackend"
_SECOND_STEP = "second-step"
_SECOND_STEP_SECONDS = 300
_MOST_NOTED = 10_000

_noted: dict[str, float] = {}
"""When this process last noted that a session was seen, by the session's key."""


class SessionBackend(ModelBackend):
    """What Django asks for the person of a session. Nobody signs in by it: its own pages know no second factor."""

    def authenticate(self, *_: Any, **__: Any) -> None:
        return None

    def get_user(self, user_id: Any) -> Any:
        """Nobody while it is not known whether the person is still in their directory: the session waits then."""
        person = super().get_user(user_id)
        if person is None:
            return None
        checked_at = person.directory_checked_at
        standing = account_status(person.pk, connection_id=person.connection_id, checked_at=checked_at)
        return person if standing is AccountStatus.PRESENT else None


def sign_in(request: HttpRequest, *, username: str, password: str, directory: str | None, code: str | None) -> Person:
    """Sign a person in with all they have at once; raises SignInRefused, or what keeps the directory from answering."""
    person = verify(request, username=username, password=password, directory=directory)
    second_factor.require_code(request, person, code)
    start(request, person)
    return person


def start(request: HttpRequest, person: Person) -> None:
    """Begin a session of somebody who has proved who they are."""
    if not readmit(person):
        raise SignInRefused(Reason.DEACTIVATED, person=person.username)
    # A new session with another key: one that was planted, or the person's before, is worthless from now on.
    logout(request)
    login(request, person, backend=_BACKEND)
    request.session.save()
    known_devices.note(request, person)
    _forget_ended(person)
    _remember(request, person.pk)
    _note(request, "signed in", person)


def await_code(request: HttpRequest, person: Person) -> None:
    """Remember for some minutes that somebody's password was right and that their code is still to come."""
    logout(request)
    request.session[_SECOND_STEP] = {
        "person": person.pk,
        "password": person.get_session_auth_hash(),
        "until": time.time() + _SECOND_STEP_SECONDS,
    }


def find_awaited(request: HttpRequest) -> Person | None:
    """Whose code is still to come, if anybody's."""
    step = request.session.get(_SECOND_STEP)
    if step is None or time.time() > step["until"]:
        return None
    may_come = Q(is_active=True) | Q(left_directory_at__isnull=False)
    person = Person.objects.filter(may_come, pk=step["person"]).first()
    return person if person and person.get_session_auth_hash() == step["password"] else None


def sign_out(request: HttpRequest) -> None:
    """End the session, and with it its platform tokens."""
    person = get_user(request)
    if isinstance(person, Person):
        _note(request, "signed out", person)
    session_key = stored_key_of(request)
    logout(request)
    _revoke_tokens_of([session_key])
    PersonSession.objects.filter(session_key=session_key).delete()


def sessions_of(person_id: int) -> QuerySet[PersonSession]:
    """Where a person is signed in, with `expires_at`, the most recently used first."""
    expires_at = Session.objects.filter(session_key=OuterRef("session_key")).values("expire_date")
    living = PersonSession.objects.filter(person_id=person_id).annotate(expires_at=Subquery(expires_at))
    return living.filter(expires_at__gt=timezone.now()).order_by("-last_seen_at", "id")


def end(request: HttpRequest, person: PersonRef, id: UUID) -> None:
    """End one of the person's sessions; raises NotFound for any other."""
    session = sessions_of(person.id).filter(pk=id).first()
    if session is None:
        raise NotFound
    if session.session_key == stored_key_of(request):
        sign_out(request)
    else:
        _end([session])
        _note(request, "session ended from another", person, sessions=1)


def end_others(request: HttpRequest, person: PersonRef) -> int:
    """End all of the person's sessions but this one, with their platform tokens; how many there were."""
    others = list(sessions_of(person.id).exclude(session_key=stored_key_of(request)))
    _end(others)
    _note(request, "sessions ended from another", person, sessions=len(others))
    return len(others)


def note_seen(request: HttpRequest) -> None:
    """Note that the request's session is in use, at most once a minute."""
    person_id, session_key = request.session.get(SESSION_KEY), stored_key_of(request)
    if not session_key or person_id is None:
        return
    now = time.monotonic()
    if now - _noted.get(session_key, -SEEN_EVERY.total_seconds()) < SEEN_EVERY.total_seconds():
        return
    if len(_noted) >= _MOST_NOTED:
        _noted.clear()
    _noted[session_key] = now
    seen = PersonSession.objects.filter(session_key=session_key)
    if not seen.update(last_seen_at=timezone.now(), address=client_address(request)):
        _remember(request, int(person_id))  # Django gave the session another key, as it does with a new password


def digest_of_session(session_key: str | None) -> str:
    """A name for a session that does not let anybody use it."""
    return hashlib.sha256((session_key or "").encode()).hexdigest()[:32]


def issue_access_token(request: HttpRequest, call: Call) -> tuple[str, datetime]:
    """A platform token of the session's person, and until when it is valid; it ends with the session at the latest."""
    now = timezone.now()
    expires_at = now + timedelta(minutes=settings.CONFIGURATION.Tokens.AccessTokenMinutes)
    value, secret = credential_values.make(credential_values.Prefix.PLATFORM_TOKEN)
    person = Person.objects.filter(pk=call.person.id, is_active=True).first()
    if person is None:
        raise Forbidden
    AccessToken.objects.filter(person=person, expires_at__lt=now).delete()
    AccessToken.objects.create(
        lookup_id=secret.lookup_id,
        digest=secret.digest,
        person=person,
        session_key=stored_key_of(request),
        connection_id=person.connection_id,
        expires_at=expires_at,
    )
    return value, expires_at


def revoke_tokens(person: Person) -> None:
    """Revoke all platform tokens of a person."""
    AccessToken.objects.filter(person=person, revoked_at__isnull=True).update(revoked_at=timezone.now())


def _remember(request: HttpRequest, person_id: int) -> None:
    PersonSession.objects.update_or_create(
        session_key=stored_key_of(request),
        defaults={
            "person_id": person_id,
            "address": client_address(request),
            "user_agent": request.headers.get("User-Agent", "").replace("\0", "")[:256],
        },
    )


def _forget_ended(person: Person) -> None:
    PersonSession.objects.filter(person=person).exclude(pk__in=sessions_of(person.pk).values("pk")).delete()


def _end(sessions: list[PersonSession]) -> None:
    keys = [session.session_key for session in sessions]
    _revoke_tokens_of(keys)
    Session.objects.filter(session_key__in=keys).delete()
    PersonSession.objects.filter(session_key__in=keys).delete()


def _revoke_tokens_of(session_keys: list[str]) -> None:
    tokens = AccessToken.objects.filter(session_key__in=session_keys, revoked_at__isnull=True)
    tokens.update(revoked_at=timezone.now())


def _note(request: HttpRequest, event: str, person: Person | PersonRef, **facts: Any) -> None:
    security.noted(
        event,
        person=person.username,
        session=digest_of_session(request.session.session_key)[:8],
        **origin_of(request),
        **facts,
    )
