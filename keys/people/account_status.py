"""Whether the people of a directory are still there: who has left loses sessions, tokens and keys.

Each is looked up when they sign in, when a key is issued for them, and at least every CHECK_EVERY while they or their
keys are in use: by the workers' sweep, or else by the request that finds the last look too old. An account that is
absent, disabled or expired deactivates its person. A lock-out does not, for it ends by itself and anybody can cause it;
nor does an expired password, which keeps out by itself who signs in. A new password, or one that must be changed, ends
the sessions and tokens. With each look the groups of the directory that stand for groups of permissions are followed.

A directory that does not answer ends nothing at once: its people and their keys go on for a time of grace
(`Directory:OwnerCheckGraceMinutes`). Nobody signs in and no key is issued meanwhile.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from active_directory import Client, Entry, UserAccountControl, filetime_to_datetime
from audit import log, security
from audit.model_changes.recording import keeps_own_records
from audit.model_changes.unattended import call_of_gateway
from audit.redact import ChangeJson
from core.errors import Conflict, GatewayError
from core.text.messages import message
from directory import errors as directory_errors
from directory.lookup.access import is_within_any
from directory.lookup.connection import get_client
from keys.models import ApiKey, Person, PersonSession
from keys.models.agents import AgentGrant
from keys.people import directory_groups
from keys.people.revocation import end_all

CHECK_EVERY = timedelta(seconds=60)
"""The sweep comes so often (`gateway.monitoring.schedule`) that no request has to look while a worker runs."""
ATTRIBUTES = ("objectGUID", "userAccountControl", "accountExpires", "pwdLastSet")
"""What an account must have been read with to be judged."""

_SILENT_SECONDS = 15.0
"""For how long requests do not ask a directory again that has just not answered: each would wait for it."""
_PATIENCE_SECONDS = 1.0
"""How long a request waits for another one's look at the same directory."""

_logger = structlog.get_logger(__name__)


class AccountStatus(Enum):
    """What is known of a person's account: it is there, it is not, or nobody has been able to tell for too long."""

    PRESENT = "present"
    LEFT = "left"
    UNKNOWN = "unknown"


class NotChecked(directory_errors.Unavailable):
    """The directory has not answered for too long: whether the person is still there is not known."""

    def __init__(self) -> None:
        super().__init__(message("The directory of the credential's person does not answer, so it cannot be checked."))


@dataclass(slots=True)
class _Asking:
    """One directory as this process asks it: one look of a request at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    silent_until: float = 0.0


_asking: dict[UUID, _Asking] = {}


def account_status(person_id: int, *, connection_id: UUID | None, checked_at: datetime) -> AccountStatus:
    """The standing of a person who, or whose key, is being used. Local accounts have no directory to leave.

    `checked_at` is when their account was last found to be there. If that is too long ago, it is looked up.
    """
    if connection_id is None or _age(checked_at) < CHECK_EVERY:
        return AccountStatus.PRESENT
    _look_up(person_id, connection_id)
    now = Person.objects.filter(pk=person_id).values_list("is_active", "directory_checked_at").first()
    if now is None or not now[0]:
        return AccountStatus.LEFT
    grace = timedelta(minutes=settings.CONFIGURATION.Directory.OwnerCheckGraceMinutes)
    return AccountStatus.PRESENT if _age(now[1]) < max(grace, CHECK_EVERY) else AccountStatus.UNKNOWN


def require_present(person: Person) -> None:
    """For a new credential the directory has to say now that its person is there.

    Raises Conflict when they are not, Unavailable when it does not answer. A local account is always there.
    """
    if person.connection is None or person.object_guid is None:
        return
    found = _read(person.connection_id, [person])
    reason = _why_left(found.client, found.entries.get(person.object_guid))
    if reason is not None:
        raise Conflict(message("{username} cannot be given a key: {reason}", username=person.username, reason=reason))


def check_all() -> None:
    """Look up everybody who has a session, a valid key or an agent, one directory after another."""
    valid = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    keys = ApiKey.objects.filter(valid, owner=OuterRef("pk"), revoked_at__isnull=True)
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
    """Note that the directory has just accepted the person's password; sessions begun with another one end.

    `account` was read before that, so that a password set in between is seen as a new one at the next look.
    """
    _compare_password(person, account, fresh=timezone.now())


def follow_groups(person: Person, client: Client) -> None:
    """At their sign-in, let somebody be in the groups of permissions that those of their account stand for.

    Raises Unavailable when the directory does not answer.
    """
    if person.connection_id is not None:
        directory_groups.follow(person.connection_id, client, [person])


def readmit(person: Person) -> bool:
    """Activate again, at their sign-in, somebody whom the directory had let go; False if an administrator has.

    Their account is enabled again, or they could not sign in. Their sessions of before are gone; what they may do, and
    their keys, are as they were.
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
    security.noted("person activated", person=person.username, reason="the directory lets them sign in again")
    return True


def _look_up(person_id: int, connection_id: UUID) -> None:
    """One person, unless the directory has just been silent or somebody else is quicker."""
    asking = _asking.setdefault(connection_id, _Asking())
    if time.monotonic() < asking.silent_until or not asking.lock.acquire(timeout=_PATIENCE_SECONDS):
        return
    try:
        if time.monotonic() < asking.silent_until:
            return
        due = Person.objects.filter(
            pk=person_id,
            is_active=True,
            connection__enabled=True,
            directory_checked_at__lte=timezone.now() - CHECK_EVERY,
        )
        _check(connection_id, list(due.select_related("connection")))
    except GatewayError as problem:
        asking.silent_until = time.monotonic() + _SILENT_SECONDS
        _logger.warning("a person cannot be checked", connection=str(connection_id), why=problem.code)
    finally:
        asking.lock.release()


@dataclass(frozen=True, slots=True)
class _Found:
    client: Client
    entries: dict[UUID, Entry]


def _read(connection_id: UUID | None, people: Sequence[Person]) -> _Found:
    """The accounts of people of one directory; raises GatewayError when it does not answer."""
    assert connection_id is not None
    guids = [person.object_guid for person in people if person.object_guid is not None]
    with directory_errors.translated():
        client = get_client(connection_id)
        return _Found(client, client.read_many(guids, ATTRIBUTES, of_domain=True))


def _check(connection_id: UUID, people: Sequence[Person]) -> None:
    """Look people of one directory up and do what follows; raises GatewayError when it does not answer."""
    if not people:
        return
    began = timezone.now()
    found = _read(connection_id, people)
    with keeps_own_records():
        _conclude(connection_id, found, people, began)


def _conclude(connection_id: UUID, found: _Found, people: Sequence[Person], began: datetime) -> None:
    """What follows from how the accounts of people were found by a look that began then."""
    present: list[Person] = []
    for person in people:
        assert person.object_guid is not None
        account = found.entries.get(person.object_guid)
        if account is not None and "userAccountControl" not in account:
            # Nothing was learned, as if it had not answered.
            _logger.warning("the gateway's account may not read an account", person=person.username)
        elif reason := _why_left(found.client, account):
            _deactivate(person, reason, before=began)
        else:
            assert account is not None
            _compare_password(person, account)
            present.append(person)
    directory_groups.follow(connection_id, found.client, present)
    looked_up = Person.objects.filter(pk__in=[person.pk for person in present], directory_checked_at__lt=began)
    looked_up.update(directory_checked_at=began)


def _why_left(client: Client, account: Entry | None) -> str | None:
    """Why the person behind an account is not there any more, in words for people; None when they are.

    Another object of the same name is not theirs. Who was moved out of the connection's base cannot sign in either.
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
        end_all(person.pk)
        changed: ChangeJson = {"attribute": "active", "before": ["true"], "after": ["false"]}
        _record(person, "people.deactivate", reason, changed)
    security.noted("person deactivated", person=person.username, reason=reason)


def _compare_password(person: Person, account: Entry, *, fresh: datetime | None = None) -> None:
    """Keep when the password was set; if that is another moment than the one known, the sessions end.

    An earlier moment is only what another domain controller does not know better yet. 0 stands for a password that
    must be changed. `fresh` is when the directory accepted the password.
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
            end_all(person.pk)
            _record(person, "people.end-sessions", "The password was changed in the directory.")
    if is_new:
        security.noted("sessions ended", person=person.username, reason="the password was changed in the directory")
    person.refresh_from_db(fields=["password_set", "session_epoch", "directory_checked_at"])


def _record(person: Person, operation: str, reason: str, *changes: ChangeJson) -> None:
    """The record of what the gateway does by itself; it joins the caller's transaction."""
    call = call_of_gateway(f"{person.username}: {reason}")
    target = log.TargetRef(id=person.public_id, kind="people", distinguished_name=person.username)
    log.record_administration(call, operation=operation, target=target, changes=changes)


def _age(moment: datetime) -> timedelta:
    return timezone.now() - moment
