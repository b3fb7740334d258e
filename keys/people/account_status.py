"""Whether the people of a directory still have an account there; those who have left lose sessions, tokens and keys.

Accounts are checked when people sign in, when a key is issued for them, and at least every CHECK_EVERY while they or
their keys are in use: by the workers' sweep, or else by a request that finds the last check too old. An account that is
absent, disabled or expired deactivates its person. A lock-out does not, since it ends by itself and anybody can cause
it; nor does an expired password, with which nobody can sign in anyway. A new password, or one that must be changed,
ends the sessions and tokens. Each check also updates memberships that follow from groups of the directory.

If a directory does not answer, its people and their keys may go on for `Directory:OwnerCheckGraceMinutes`. Meanwhile
nobody signs in and no key is issued.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, F, OuterRef
from django.utils import timezone

from active_directory import Client, Entry, UserAccountControl, filetime_to_datetime, require_thread
from audit import log, security
from audit.model_changes.recording import call_of_gateway, keeps_own_records
from audit.redact import ChangeJson
from core.errors import Conflict, GatewayError
from core.text.messages import message
from directory import errors as directory_errors
from directory.lookup.access import is_within_any
from directory.lookup.connection import get_client
from keys.models import AccessToken, Person, PersonSession
from keys.models.agents import AgentGrant
from keys.models.api_keys import valid_keys
from keys.people import directory_groups

CHECK_EVERY = timedelta(seconds=60)
"""The sweep comes more often (`gateway.monitoring.workers`), so that requests need not check while a worker runs."""
ATTRIBUTES = ("objectGUID", "userAccountControl", "accountExpires", "pwdLastSet")
"""The attributes that an account has to be read with."""

_SILENT_SECONDS = 15.0
"""How long requests do not ask a directory that has just failed to answer: each would wait for it."""
_PATIENCE_SECONDS = 1.0
"""How long a request waits for another one's check in the same directory."""

_logger = structlog.get_logger(__name__)


class AccountStatus(Enum):
    """Whether a person still has their account; UNKNOWN if the directory has not answered for too long."""

    PRESENT = "present"
    LEFT = "left"
    UNKNOWN = "unknown"


class NotChecked(directory_errors.Unavailable):
    """The directory has not answered for too long, so that the person could not be checked."""

    def __init__(self) -> None:
        super().__init__(message("The directory of the credential's person does not answer, so it cannot be checked."))


@dataclass(slots=True)
class _Lookups:
    """The checks of one directory in this process: one request at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    silent_until: float = 0.0


_lookups: dict[UUID, _Lookups] = {}  # by connection


def account_status(person: Person) -> AccountStatus:
    """The account status of a person who, or whose key, makes a request; PRESENT for local accounts.

    If the account was last found in the directory too long ago, it is checked now.
    """
    if person.connection_id is None or _age(person.directory_checked_at) < CHECK_EVERY:
        return AccountStatus.PRESENT
    _look_up(person.pk, person.connection_id)
    now = Person.objects.filter(pk=person.pk).values_list("is_active", "directory_checked_at").first()
    if now is None or not now[0]:
        return AccountStatus.LEFT
    grace = timedelta(minutes=settings.CONFIGURATION.Directory.OwnerCheckGraceMinutes)
    return AccountStatus.PRESENT if _age(now[1]) < max(grace, CHECK_EVERY) else AccountStatus.UNKNOWN


def require_present(person: Person) -> None:
    """Require, for a new credential, that the directory has the person's account now.

    Raises Conflict if it does not, Unavailable if it does not answer. Local accounts always pass.
    """
    if person.connection is None or person.object_guid is None:
        return
    client, accounts = _read(person.connection_id, [person])
    reason = departure_reason(client, accounts.get(person.object_guid))
    if reason is not None:
        raise Conflict(message("{username} cannot be given a key: {reason}", username=person.username, reason=reason))


def check_all() -> None:
    """Check everybody who has a session, a valid key or an agent, one directory after another."""
    keys = valid_keys().filter(owner=OuterRef("pk"))
    sessions = PersonSession.objects.filter(person=OuterRef("pk"))
    agents = AgentGrant.objects.filter(person=OuterRef("pk"), ended_at__isnull=True, expires_at__gt=timezone.now())
    in_use = Person.objects.filter(
        Exists(keys) | Exists(sessions) | Exists(agents), is_active=True, connection__enabled=True
    )
    by_connection: dict[UUID, list[Person]] = {}
    for person in in_use.select_related("connection"):
        assert person.connection_id is not None
        by_connection.setdefault(person.connection_id, []).append(person)
    for connection_id, people in by_connection.items():
        try:
            _check(connection_id, people)
        except GatewayError as problem:
            _logger.warning("people cannot be checked", connection=str(connection_id), why=problem.code)


def note_sign_in(person: Person, account: Entry) -> None:
    """Note that the directory has just accepted the person's password; sessions begun with an older one end.

    `account` was read before, so that a password set in between counts as new at the next check.
    """
    _compare_password(person, account, fresh=timezone.now())


def update_groups(person: Person, client: Client) -> None:
    """Update, at a sign-in, the memberships that follow from the account's groups.

    Raises Unavailable if the directory does not answer.
    """
    if person.connection_id is not None:
        directory_groups.update_memberships(person.connection_id, client, [person])


def readmit(person: Person) -> bool:
    """Reactivate a person at their sign-in if they had left the directory; False if an administrator deactivated them.

    Their account must be enabled again, or they could not sign in. Old sessions stay ended; their permissions and keys
    are as they were.
    """
    if person.is_active:
        return True
    with transaction.atomic():
        left = Person.objects.filter(pk=person.pk, is_active=False, left_directory_at__isnull=False)
        if not left.update(is_active=True, left_directory_at=None, directory_checked_at=timezone.now()):
            return False
        changed: ChangeJson = {"attribute": "active", "before": ["false"], "after": ["true"]}
        _record(person, "people.activate", "The account can sign in to the directory again.", changed)
    person.is_active, person.left_directory_at = True, None
    security.log_event("person activated", person=person.username, reason="the directory lets them sign in again")
    return True


def _look_up(person_id: int, connection_id: UUID) -> None:
    """Check one person, unless the directory has just failed to answer or another request is faster."""
    require_thread()
    lookups = _lookups.setdefault(connection_id, _Lookups())
    if time.monotonic() < lookups.silent_until or not lookups.lock.acquire(timeout=_PATIENCE_SECONDS):
        return
    try:
        if time.monotonic() < lookups.silent_until:
            return
        due = Person.objects.filter(
            pk=person_id,
            is_active=True,
            connection__enabled=True,
            directory_checked_at__lte=timezone.now() - CHECK_EVERY,
        )
        _check(connection_id, list(due.select_related("connection")))
    except GatewayError as problem:
        lookups.silent_until = time.monotonic() + _SILENT_SECONDS
        _logger.warning("a person cannot be checked", connection=str(connection_id), why=problem.code)
    finally:
        lookups.lock.release()


def _read(connection_id: UUID | None, people: Sequence[Person]) -> tuple[Client, dict[UUID, Entry]]:
    """Read the accounts of people of one directory, by objectGUID; raises GatewayError if it does not answer."""
    assert connection_id is not None
    guids = [person.object_guid for person in people if person.object_guid is not None]
    with directory_errors.translate_ldap_errors():
        client = get_client(connection_id)
        return client, client.read_many(guids, ATTRIBUTES, of_domain=True)


@keeps_own_records()
def _check(connection_id: UUID, people: Sequence[Person]) -> None:
    """Check people of one directory and act on the findings; raises GatewayError if it does not answer."""
    if not people:
        return
    began = timezone.now()
    client, accounts = _read(connection_id, people)
    present: list[Person] = []
    for person in people:
        assert person.object_guid is not None
        account = accounts.get(person.object_guid)
        if account is not None and "userAccountControl" not in account:
            # Access denied hides the attribute ([MS-ADTS] 3.1.1.4.3): no proof of anything, so like no answer.
            _logger.warning("the gateway's account may not read an account", person=person.username)
        elif reason := departure_reason(client, account):
            _deactivate(person, reason, before=began)
        else:
            assert account is not None
            _compare_password(person, account)
            present.append(person)
    directory_groups.update_memberships(connection_id, client, present)
    looked_up = Person.objects.filter(pk__in=[person.pk for person in present], directory_checked_at__lt=began)
    looked_up.update(directory_checked_at=began)


def departure_reason(client: Client, account: Entry | None) -> str | None:
    """Why the person of an account counts as having left, in words; None if they have not.

    An account that was moved out of the connection's base counts too, since nobody can sign in with it.
    """
    if account is None or not is_within_any(account.dn, (client.settings.base_dn,)):
        return "The account does not exist in the directory any more."
    if (account.integer("userAccountControl") or 0) & UserAccountControl.ACCOUNTDISABLE:
        return "The account is disabled in the directory."
    expires_at = filetime_to_datetime(account.integer("accountExpires") or 0)
    if expires_at is not None and expires_at <= datetime.now(UTC):
        return "The account has expired in the directory."
    return None


def _deactivate(person: Person, reason: str, *, before: datetime) -> None:
    """Deactivate somebody who has left, unless they have signed in since they were looked up."""
    with transaction.atomic():
        still = Person.objects.filter(pk=person.pk, is_active=True, directory_checked_at__lte=before)
        left = {"is_active": False, "left_directory_at": timezone.now(), "session_epoch": F("session_epoch") + 1}
        if not still.update(**left):
            return
        end_all_sessions(person.pk)
        changed: ChangeJson = {"attribute": "active", "before": ["true"], "after": ["false"]}
        _record(person, "people.deactivate", reason, changed)
    security.log_event("person deactivated", person=person.username, reason=reason)


def _compare_password(person: Person, account: Entry, *, fresh: datetime | None = None) -> None:
    """Keep the account's pwdLastSet; if it is newer than the known one, end the person's sessions.

    An older value comes from a domain controller to which the new password has not replicated. 0 means that the
    password must be changed ([MS-ADA3], attribute pwdLastSet). `fresh` is when the directory accepted the password.
    """
    seen, known = account.integer("pwdLastSet"), person.password_set
    is_new = seen is not None and known is not None and (seen > known or seen == 0 != known)
    changes: dict[str, object] = {} if fresh is None else {"directory_checked_at": fresh}
    if seen is not None and (known is None or is_new):
        changes["password_set"] = seen
    if is_new:
        changes["session_epoch"] = F("session_epoch") + 1
    if not changes:
        return
    with transaction.atomic():
        if Person.objects.filter(pk=person.pk, password_set=known).update(**changes) and is_new:
            end_all_sessions(person.pk)
            _record(person, "people.end-sessions", "The password was changed in the directory.")
    if is_new:
        security.log_event("sessions ended", person=person.username, reason="the password was changed in the directory")
    person.refresh_from_db(fields=["password_set", "session_epoch", "directory_checked_at"])


def _record(person: Person, operation: str, reason: str, *changes: ChangeJson) -> None:
    """Record what the gateway does by itself, in the caller's transaction."""
    call = call_of_gateway(f"{person.username}: {reason}")
    target = log.TargetRef(id=person.public_id, kind="people", distinguished_name=person.username)
    log.record_administration(call, operation=operation, target=target, changes=changes)


def _age(moment: datetime) -> timedelta:
    return timezone.now() - moment


def end_all_sessions(person_id: int) -> None:
    """End the sessions of a person, whose `session_epoch` has just grown, and revoke their platform tokens."""
    revoke_tokens(person_id=person_id)
    known = PersonSession.objects.filter(person_id=person_id)
    Session.objects.filter(session_key__in=list(known.values_list("session_key", flat=True))).delete()
    known.delete()


def revoke_tokens(**which: Any) -> None:
    """Revoke platform tokens: a person's, or those of sessions."""
    AccessToken.objects.filter(**which, revoked_at__isnull=True).update(revoked_at=timezone.now())
