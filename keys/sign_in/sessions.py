"""The sessions of people: how they begin and end, how they are stored, and their platform tokens.

The database stores a session under a digest of the cookie's value, so that nobody can read a usable cookie from the
database or a backup. `credentials` verifies user names and passwords, and `keys.authentication` recognises later
requests.
"""

import hashlib
import time
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user, login, logout, update_session_auth_hash
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.backends import db
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone

from audit import security
from audit.model_changes.recording import recorded
from core.call import Call, PersonRef
from core.errors import Conflict, Forbidden, InvalidRequest, NotFound
from core.text.messages import message
from keys import credential_values
from keys.callers import client_address, origin_of
from keys.models import AccessToken, Passkey, Person, PersonSession
from keys.people.account_status import AccountStatus, account_status, readmit, revoke_tokens
from keys.permissions.effective import reference_to
from keys.sign_in import break_glass, login_throttle, second_factor
from keys.sign_in.credentials import Reason, SignInRefused, verify
from keys.sign_in.oidc.provider_sessions import SESSION_KEY as PROVIDER_SESSION
from keys.sign_in.oidc.provider_sessions import ProviderSession, provider_session_of
from keys.sign_in.passkeys import SESSION_PASSKEY

SEEN_EVERY = timedelta(minutes=1)
_JUST_NOW = timedelta(minutes=10)

_BACKEND = "keys.sign_in.sessions.SessionBackend"
_SECOND_STEP = "second-step"
_SECOND_STEP_SECONDS = 300
_MAX_NOTED = 10_000

_noted: dict[str, float] = {}
"""When this process last noted that a session was seen, by stored key."""


def stored_key(session_key: str | None) -> str:
    """The key under which the database stores a session, from the key in the cookie; "" for none.

    It is the first 160 bits of the SHA-256, as many as Django's column holds. The cookie's key has 165 random bits, so
    no salt and no slow hash is needed.
    """
    return hashlib.sha256(session_key.encode()).hexdigest()[:40] if session_key else ""


def stored_key_of(request: HttpRequest) -> str:
    """The stored key of the request's session; "" for none."""
    return stored_key(request.session.session_key)


class SessionStore(db.SessionStore):
    """Django's database store, which uses the stored key in place of the cookie's."""

    def _get_session_from_db(self) -> Session | None:
        living = Session.objects.filter(session_key=stored_key(self.session_key), expire_date__gt=timezone.now())
        found = living.first()
        if found is None:
            self._session_key = None
        return found

    def exists(self, session_key: str) -> bool:
        return super().exists(stored_key(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        instance = super().create_model_instance(data)
        instance.session_key = stored_key(instance.session_key)
        return instance

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(stored_key(key))

    async def _aget_session_from_db(self) -> Session | None:
        return await sync_to_async(self._get_session_from_db)()

    async def aexists(self, session_key: str) -> bool:
        return await sync_to_async(self.exists)(session_key)

    async def acreate_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        return await sync_to_async(self.create_model_instance)(data)

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)


class SessionBackend(ModelBackend):
    """Gives Django the person of a session. Nobody can sign in through it, since it knows no second factor."""

    def authenticate(self, *_: Any, **__: Any) -> None:
        return None

    def get_user(self, user_id: Any) -> Any:
        """The person; None while they cannot be checked in their directory, which does not end the session."""
        person = super().get_user(user_id)
        if person is None:
            return None
        return person if account_status(person) is AccountStatus.PRESENT else None


def sign_in(request: HttpRequest, *, username: str, password: str, directory: str | None, code: str | None) -> Person:
    """Sign a person in with password and code at once; raises SignInRefused, or the directory's error."""
    person = verify(request, username=username, password=password, directory=directory)
    second_factor.require_code(request, person, code)
    start(request, person)
    return person


def start(
    request: HttpRequest,
    person: Person,
    *,
    passkey: Passkey | None = None,
    began_at: ProviderSession | None = None,
) -> None:
    """Begin a session of a person whose credentials were verified, with a `passkey`, at a provider, or neither.

    Raises SignInRefused.
    """
    if began_at is None and find_person_awaiting_code(request) == person:
        kept = request.session[_SECOND_STEP].get("began_at")
        began_at = ProviderSession(**kept) if kept else None
    if not readmit(person):
        raise SignInRefused(Reason.DEACTIVATED, person=person.username)
    # A new session with a new key, against session fixation; an earlier session of this browser ends.
    logout(request)
    login(request, person, backend=_BACKEND)
    if passkey is not None:
        request.session[SESSION_PASSKEY] = str(passkey.pk)
    if began_at is not None:
        request.session[PROVIDER_SESSION] = began_at.as_json()
    request.session.save()
    login_throttle.remember_device(request, person)
    _delete_ended(person)
    _save_person_session(request, person.pk)
    _note(request, "signed in", person, **({} if began_at is None else {"provider": began_at.provider}))
    break_glass.note_use(person, client_address(request))


def await_code(request: HttpRequest, person: Person, *, began_at: ProviderSession | None = None) -> None:
    """Remember for five minutes that a person's password or provider was right and that their code is yet to come."""
    logout(request)  # nothing of an earlier person's session may stay in this one
    request.session[_SECOND_STEP] = {
        "person": person.pk,
        "password": person.get_session_auth_hash(),
        "until": time.time() + _SECOND_STEP_SECONDS,
        "began_at": None if began_at is None else began_at.as_json(),
    }


def find_person_awaiting_code(request: HttpRequest) -> Person | None:
    """The person whose code is yet to come, if any. A password changed meanwhile voids the first step."""
    step = request.session.get(_SECOND_STEP)
    if step is None or time.time() > step["until"]:
        return None
    may_come = Q(is_active=True) | Q(left_directory_at__isnull=False)
    person = Person.objects.filter(may_come, pk=step["person"]).first()
    return person if person and person.get_session_auth_hash() == step["password"] else None


def sign_out(request: HttpRequest) -> None:
    """End the request's session and its platform tokens."""
    person = get_user(request)
    if isinstance(person, Person):
        _note(request, "signed out", person)
    session_key = stored_key_of(request)
    logout(request)
    revoke_tokens(session_key=session_key)
    PersonSession.objects.filter(session_key=session_key).delete()


def sessions_of(person_id: int) -> QuerySet[PersonSession]:
    """The living sessions of a person, annotated with `expires_at`, the most recently used first."""
    expires_at = Session.objects.filter(session_key=OuterRef("session_key")).values("expire_date")
    living = PersonSession.objects.filter(person_id=person_id).annotate(expires_at=Subquery(expires_at))
    return living.filter(expires_at__gt=timezone.now()).order_by("-last_seen_at", "id")


def has_just_come_from_provider(request: HttpRequest) -> bool:
    """Whether the request's session began at a sign-in provider, within the last ten minutes."""
    since = timezone.now() - _JUST_NOW
    began = PersonSession.objects.filter(session_key=stored_key_of(request), started_at__gt=since)
    return began.exclude(provider="").exists()


def end(request: HttpRequest, person: PersonRef, id: UUID) -> None:
    """End one of the person's sessions; raises NotFound for another person's."""
    session = sessions_of(person.id).filter(pk=id).first()
    if session is None:
        raise NotFound
    if session.session_key == stored_key_of(request):
        sign_out(request)
    else:
        _end([session])
        _note(request, "session ended from another", person, sessions=1)


def end_others(request: HttpRequest, person: PersonRef) -> int:
    """End the person's other sessions with their platform tokens; return how many."""
    others = list(sessions_of(person.id).exclude(session_key=stored_key_of(request)))
    _end(others)
    _note(request, "sessions ended from another", person, sessions=len(others))
    return len(others)


def end_at_provider(provider: str, *, subject: str, session_id: str, begun_before: datetime) -> int:
    """End the sessions that began there, before this moment, for a subject or in one session; return how many."""
    which = {"provider": provider, "started_at__lte": begun_before}
    if subject:
        which["provider_subject"] = subject
    if session_id:
        which["provider_session"] = session_id
    ended = list(PersonSession.objects.filter(**which).select_related("person"))
    _end(ended)
    for session in ended:
        security.log_event("session ended by its provider", person=session.person.username, provider=provider)
    return len(ended)


def note_seen(request: HttpRequest) -> None:
    """Note that the request's session is in use, at most once a minute."""
    person_id, session_key = request.session.get(SESSION_KEY), stored_key_of(request)
    if not session_key or person_id is None:
        return
    now = time.monotonic()
    if now - _noted.get(session_key, -SEEN_EVERY.total_seconds()) < SEEN_EVERY.total_seconds():
        return
    if len(_noted) >= _MAX_NOTED:
        _noted.clear()
    _noted[session_key] = now
    seen = PersonSession.objects.filter(session_key=session_key)
    if not seen.update(last_seen_at=timezone.now(), address=client_address(request)):
        _save_person_session(
            request, int(person_id)
        )  # Django gave the session another key, as it does with a new password


def digest_of_session(session_key: str | None) -> str:
    """An id of a session for logs and records, which nobody can use as a cookie."""
    return hashlib.sha256((session_key or "").encode()).hexdigest()[:32]


def issue_access_token(request: HttpRequest, call: Call) -> tuple[str, datetime]:
    """Issue a platform token for the session's person: its value, and when it expires. It ends with the session."""
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


def change_own_password(request: HttpRequest, call: Call, person: Person, *, current: str, new: str) -> None:
    """Change the password of the signed-in person, and end their other sessions and all platform tokens.

    Raises SignInRefused for a wrong current password, which counts as at the sign-in; InvalidRequest at `newPassword`
    if the validators refuse the new one; Conflict for a person of a directory.
    """
    if not person.is_local:
        raise Conflict(message("The password of a person of a directory is the directory's to change."))
    verify(request, username=person.username, password=current, is_sign_in=False)
    try:
        validate_password(new, person)
    except ValidationError as refusal:
        detail = " ".join(refusal.messages)
        raise InvalidRequest.naming(detail, pointer="#/newPassword") from None
    with recorded(call, person, operation="people.update"):
        person.set_password(new)
        person.save(update_fields=["password"])
    end_others(request, reference_to(person))
    revoke_tokens(person_id=person.pk)
    # This session goes on, but Django gives it another key.
    before = stored_key_of(request)
    update_session_auth_hash(request, person)
    PersonSession.objects.filter(session_key=before).update(session_key=stored_key_of(request))
    security.log_event("password changed", person=person.username, **origin_of(request))


def _save_person_session(request: HttpRequest, person_id: int) -> None:
    began_at = provider_session_of(request)
    origin = (
        {}
        if began_at is None
        else {
            "provider": began_at.provider,
            "provider_subject": began_at.subject,
            "provider_session": began_at.session_id,
        }
    )
    PersonSession.objects.update_or_create(
        session_key=stored_key_of(request),
        defaults={
            "person_id": person_id,
            "address": client_address(request),
            "user_agent": request.headers.get("User-Agent", "").replace("\0", "")[:256],
            **origin,
        },
    )


def _delete_ended(person: Person) -> None:
    PersonSession.objects.filter(person=person).exclude(pk__in=sessions_of(person.pk).values("pk")).delete()


def _end(sessions: list[PersonSession]) -> None:
    keys = [session.session_key for session in sessions]
    revoke_tokens(session_key__in=keys)
    Session.objects.filter(session_key__in=keys).delete()
    PersonSession.objects.filter(session_key__in=keys).delete()


def _note(request: HttpRequest, event: str, person: Person | PersonRef, **facts: Any) -> None:
    security.log_event(
        event,
        person=person.username,
        session=digest_of_session(request.session.session_key)[:8],
        **origin_of(request),
        **facts,
    )
