"""Signing in and out: local accounts, people of a connected directory, and the platform token of a session.

How a later request is recognised is `authentication`'s matter.
"""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from audit import security
from directory import errors as directory_errors
from directory.connection import get_client
from directory.ldap import And, BindResult, Client, Entry, Equals, Not, Scope
from directory.models import DirectoryConnection
from gateway.core.call import Call
from gateway.core.errors import Forbidden, Unauthorized
from keys import secrets, sign_in_limits
from keys.models import AccessToken, Person

MAX_PASSWORD = 1024
_BACKEND = "keys.sessions.LocalAccountBackend"
_NAMES = ("objectGUID", "sAMAccountName", "displayName", "name")


class LocalAccountBackend(ModelBackend):
    """What Django's own sign-in pages ask. `CONNECTION\\name` is a person of that directory, as they are written."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> Person | None:
        if username is None or password is None:
            return None
        try:
            return _verify(request, username=username, password=password, directory=None)
        except directory_errors.Unavailable:
            return None  # a page has no better place for it; the client has logged what is wrong


def sign_in(request: HttpRequest, *, username: str, password: str, directory: str | None = None) -> Person:
    """Sign a person in with a new session; raises Unauthorized, the same whatever is wrong."""
    person = _verify(request, username=username, password=password, directory=directory)
    if person is None:
        raise Unauthorized
    # A new session with another key: one that was planted, or the person's before, is worthless from now on.
    logout(request)
    login(request, person, backend=_BACKEND)
    request.session.save()
    return person


def sign_out(request: HttpRequest) -> None:
    """End the session, and with it its platform tokens."""
    logout(request)


def digest_of_session(session_key: str | None) -> str:
    """A name for a session that does not let anybody use it."""
    return hashlib.sha256((session_key or "").encode()).hexdigest()[:32]


def issue_access_token(request: HttpRequest, call: Call) -> tuple[str, datetime]:
    """A platform token of the session's person, and until when it is valid; it ends with the session at the latest."""
    now = timezone.now()
    expires_at = now + timedelta(minutes=settings.CONFIGURATION.Tokens.AccessTokenMinutes)
    value, secret = secrets.make(secrets.Prefix.PLATFORM_TOKEN)
    person = Person.objects.filter(pk=call.person.id, is_active=True).first()
    if person is None:
        raise Forbidden
    AccessToken.objects.filter(person=person, expires_at__lt=now).delete()
    AccessToken.objects.create(
        lookup_id=secret.lookup_id,
        digest=secret.digest,
        person=person,
        session_key=request.session.session_key or "",
        connection_id=person.connection_id,
        expires_at=expires_at,
    )
    return value, expires_at


def revoke_tokens(person: Person) -> None:
    """Revoke all platform tokens of a person."""
    AccessToken.objects.filter(person=person, revoked_at__isnull=True).update(revoked_at=timezone.now())


def _verify(request: HttpRequest | None, *, username: str, password: str, directory: str | None) -> Person | None:
    """The person whose name and password these are; None when they are nobody's or tried too often."""
    if directory is None and "\\" in username:  # no local account has such a name
        directory, username = username.split("\\", 1)
    address = getattr(request, "client_address", None) or ""
    attempt = sign_in_limits.begin(f"{directory or ''}\\{username}", address)
    if attempt is None:
        person, reason = None, "sign-in locked after too many failures"
    else:
        try:
            person, reason = _find_person(username, password, directory)
        except directory_errors.Unavailable:
            sign_in_limits.forgive(attempt)
            raise
        if person is not None:
            sign_in_limits.forgive(attempt)
    if person is None:
        request_id = getattr(request, "request_id", "")
        security.refused(reason, client_address=address or None, request_id=request_id)
    return person


def _find_person(username: str, password: str, directory: str | None) -> tuple[Person | None, str]:
    # AD takes a bind without a password for an anonymous one, and answers that it succeeded.
    if not password or not username or len(password) > MAX_PASSWORD or "\0" in username + password:
        return None, "sign-in without a usable name or password"
    if directory is None:
        person = _find_local(username, password)
    else:
        connection = DirectoryConnection.objects.filter(name__iexact=directory, enabled=True).first()
        person = _find_in_directory(connection, username, password) if connection else None
    if person is None:
        return None, "wrong name or password"
    if not person.is_active:
        return None, "person deactivated"
    return person, ""


def _find_local(username: str, password: str) -> Person | None:
    person = Person.objects.filter(username=username, connection__isnull=True).first()
    if person is None:
        make_password(password)  # as slow as a wrong password, so that the time does not tell which names exist
        return None
    return person if person.check_password(password) else None


def _find_in_directory(connection: DirectoryConnection, username: str, password: str) -> Person | None:
    """The person of a directory, by a bind with their own password; made on the first sign-in, without permissions."""
    client = get_client(connection.id)
    name = username.rpartition("\\")[2]
    with directory_errors.translated():
        entry = _find_account(client, connection.base_dn, name)
        # An unknown name is tried as well: the time must not tell which names exist.
        result = client.authenticate(entry.dn if entry else name, password)
    if entry is None or result is not BindResult.OK:
        return None
    return _person_of(connection, entry)


def _find_account(client: Client, base: str, name: str) -> Entry | None:
    # [MS-ADTS] 3.1.1.8.1.3: a sAMAccountName cannot contain @, so a name is never both.
    attribute = "userPrincipalName" if "@" in name else "sAMAccountName"
    people = And(Equals("objectClass", "user"), Not(Equals("objectClass", "computer")), Equals(attribute, name))
    found = list(client.search(base, Scope.SUBTREE, people, _NAMES, limit=2))
    return found[0] if len(found) == 1 else None


def _person_of(connection: DirectoryConnection, entry: Entry) -> Person:
    username = f"{connection.name}\\{entry.text('sAMAccountName')}"[:255]
    display_name = (entry.text("displayName") or entry.text("name") or "")[:256]
    with transaction.atomic():
        person, is_new = Person.objects.get_or_create(
            connection=connection,
            object_guid=entry.guid,
            defaults={"username": f"{connection.name}\\{entry.guid}", "password": make_password(None)},
        )
        if is_new or (person.username, person.display_name) != (username, display_name):
            # The name may have been somebody else's before: they keep their person, not the name.
            for other in Person.objects.filter(username=username).exclude(pk=person.pk):
                other.username = f"{connection.name}\\{other.object_guid}"
                other.save(update_fields=["username"])
            person.username, person.display_name = username, display_name
            person.save(update_fields=["username", "display_name"])
    return person
