"""Signing in as the gateway without locking its account, however many processes and hosts do so at once.

All processes use a password that works. A password that is not known to work is tried by one process at a time, and
each try is counted (`directory.policies.password_attempts`). No process tries a refused password again until somebody
changes or tests the connection, or `REFUSED_PASSWORD_WAIT` is over. Wrong passwords that others type for the account
use up the tries of a password that is not known to work; they never block one that is.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection
from django.db.models import Q
from django.utils.crypto import salted_hmac

from active_directory import (
    BadCredentials,
    BindResult,
    Client,
    Connection,
    DistinguishedName,
    InvalidValue,
    LdapError,
    ServerSettings,
    Unavailable,
    open_connection,
    run_in_background,
    sid_to_text,
)
from core.call import Call
from core.database import shared_clock
from core.errors import RateLimited
from core.text.messages import message
from directory.errors import TooManyWrongPasswords, translate_ldap_errors
from directory.lookup.connection import get_client, other_passwords
from directory.models import BindPassword, DirectoryConnection, PasswordAttempt
from directory.policies import password_attempts
from directory.protection.bind_accounts import accounts_of_bind_name

REFUSED_PASSWORD_WAIT: Final = timedelta(hours=6)
"""How long nobody tries a refused password again: longer than domains remember wrong ones."""
_JUST_WORKED: Final = timedelta(seconds=1)
"""How long after a success processes need not take turns: when a server comes back, all of them sign in again."""
_TURN: Final = timedelta(seconds=8)
_RETENTION: Final = timedelta(days=90)
_POLL_SECONDS: Final = 0.03

REFUSED: Final = "The directory refused the bind name or the password, which is not tried again for now"
_TOO_MANY_WRONG: Final = "The password was not tried: there were too many wrong ones for the account"

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Account:
    """The account that a connection signs in with, at one of its servers or (with an empty `server`) at any.

    All processes share what domain controllers answered to its passwords, except for connections that are not saved.
    """

    connection_id: UUID | None
    bind_name: str
    server: str = ""

    def known(self, passwords: Sequence[str]) -> "_PasswordHistory":
        rows: dict[str, list[BindPassword]] = {password: [] for password in passwords}
        if self.connection_id is not None:
            by_digest = {self._digest(password): password for password in passwords}
            for row in _committed_apart(lambda: list(BindPassword.objects.filter(digest__in=by_digest))):
                rows[by_digest[row.digest]].append(row)
        return _PasswordHistory(rows, self.server)

    def note(self, passwords: Sequence[str], **values: datetime | None) -> None:
        """Save these columns for all processes. While the database is away, each process relies on its own pool."""

        def write() -> None:
            for password in passwords:
                digest = self._digest(password)
                BindPassword.objects.update_or_create(digest=digest, server=self.server, defaults=values)
            if "refused_at" in values:
                too_old = shared_clock.now() - _RETENTION
                unused = Q(worked_at=None) | Q(worked_at__lt=too_old)
                unused &= Q(refused_at=None) | Q(refused_at__lt=too_old)
                BindPassword.objects.filter(unused, tried_until=None).delete()

        if self.connection_id is not None and passwords:
            _despite_database_outage(lambda: _committed_apart(write))

    def try_acquire_turn(self, password: str) -> bool:
        """Claim the only turn to try a password that is not known to work; False while another process has it.

        A turn expires after `_TURN`, so that a process that was killed blocks nobody.
        """
        row, _ = BindPassword.objects.get_or_create(digest=self._digest(password), server=self.server)
        now = shared_clock.now()
        # One conditional UPDATE, so that only one of several processes gets the turn.
        is_free = Q(tried_until=None) | Q(tried_until__lt=now)
        return bool(BindPassword.objects.filter(is_free, pk=row.pk).update(tried_until=now + _TURN))

    def _digest(self, password: str) -> str:
        value = f"{self.connection_id}\0{self.bind_name}\0{password}"
        return salted_hmac("directory.bind_passwords", value, algorithm="sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class _PasswordHistory:
    """What all processes know about an account's passwords, by password."""

    rows: dict[str, list[BindPassword]]
    server: str

    def last(self, column: str, password: str, server: str | None = None) -> datetime | None:
        """When a password last worked (`worked_at`) or was refused (`refused_at`), at one server or at any."""
        moments = (getattr(row, column) for row in self.rows[password] if server in (None, row.server))
        return max((moment for moment in moments if moment is not None), default=None)

    def last_worked(self, password: str) -> datetime | None:
        """When this server last accepted it. Another one proves nothing: it may not be a domain controller at all."""
        return self.last("worked_at", password, self.server)

    def has_just_worked(self, password: str) -> bool:
        worked = self.last_worked(password)
        return worked is not None and worked > shared_clock.now() - _JUST_WORKED

    def is_proven(self, password: str) -> bool:
        """Whether this server accepted it and no server has refused it since."""
        worked, refused = self.last_worked(password), self.last("refused_at", password)
        return worked is not None and (refused is None or refused < worked)

    def is_refused(self, password: str) -> bool:
        """Whether a password must not be tried at this server.

        A refusal by another server does not count where this one accepted the password before. Nor does it count
        during a rotation, when the account has either of two passwords and the servers learn of it one by one.
        """
        server = self.server if len(self.rows) > 1 or self.last_worked(password) is not None else None
        worked, refused = self.last("worked_at", password, server), self.last("refused_at", password, server)
        if refused is None or refused <= shared_clock.now() - REFUSED_PASSWORD_WAIT:
            return False
        return worked is None or worked < refused


class CountedOpener:
    """Opens LDAP connections of a directory connection, and counts the passwords it tries; an `Opener`.

    With a `tester`, the caller who tests the connection, refused passwords are tried again, and each password that is
    not known to work counts against the caller's credential. It then raises TooManyWrongPasswords or RateLimited where
    it would raise BadCredentials otherwise. The password of a connection that is not saved counts as a guess.
    """

    def __init__(self, row: DirectoryConnection, tester: Call | None = None) -> None:
        self._id: UUID | None = None if row._state.adding else row.pk
        self._tester = tester

    def __call__(self, url: str, settings: ServerSettings, seconds: float) -> Connection:
        passwords = list(dict.fromkeys((settings.bind_password, *settings.other_passwords)))
        account, deadline = _Account(self._id, settings.bind_dn, url), time.monotonic() + seconds
        known, has_turn = self._wait_for_turn(account, passwords, deadline)
        try:
            return self._try_each(account, settings, passwords, known, deadline)
        finally:
            if has_turn:
                account.note(passwords[:1], tried_until=None)

    def _try_each(
        self,
        account: _Account,
        settings: ServerSettings,
        passwords: Sequence[str],
        known: _PasswordHistory,
        deadline: float,
    ) -> Connection:
        """Sign in with the first password that works.

        Only the first one, the connection's, may be a guess and is counted; the gateway made the others itself.
        """
        attempts: list[PasswordAttempt] = []
        if not (known.is_proven(passwords[0]) or known.has_just_worked(passwords[0])):
            began = time.monotonic()
            attempts = self._count(account, has_worked=known.last_worked(passwords[0]) is not None)
            deadline += time.monotonic() - began
        wrong: list[str] = []
        first: BadCredentials | None = None
        for password in passwords:
            if self._tester is None and known.is_refused(password):
                continue
            one = replace(settings, bind_password=password, other_passwords=())
            try:
                opened = open_connection(account.server, one, max(0.1, deadline - time.monotonic()))
            except LdapError as error:
                if isinstance(error, BadCredentials) and error.is_wrong_password:
                    wrong.append(password)
                    first = first or error
                    continue
                # A server that does not answer to a stored password is slow; counting that would keep the gateway out
                # for half an hour. Where a tester guesses, silence may hide a refusal, so the attempt stays counted.
                if self._tester is None or not (isinstance(error, Unavailable) and error.may_have_bound):
                    _finish(attempts, password_attempts.take_back)
                raise
            # Not `succeed`, which forgets wrong passwords: an attacker who names the servers could let their own accept
            # anything, and so reset the count between guesses.
            _finish(attempts, password_attempts.take_back)
            account.note(wrong, refused_at=shared_clock.now())
            if not known.has_just_worked(password):
                account.note([password], worked_at=shared_clock.now())
            return opened
        if attempts:
            _finish(attempts, password_attempts.fail)
        elif wrong:
            _without_keeping_connection(lambda: password_attempts.note_wrong(_subject(account.bind_name)))
        account.note(wrong, refused_at=shared_clock.now())
        raise first or BadCredentials(REFUSED, result_code=49)

    def _wait_for_turn(
        self, account: _Account, passwords: Sequence[str], deadline: float
    ) -> tuple[_PasswordHistory, bool]:
        """What is known of the passwords, and whether this process holds a turn, as it must unless one just worked."""
        while True:
            try:
                known = self._known_unless_refused(account, passwords)
                if self._id is None or known.has_just_worked(passwords[0]):
                    return known, False
                if _committed_apart(lambda: account.try_acquire_turn(passwords[0])):
                    # The process that had the turn before may have been refused since the first look.
                    return self._known_unless_refused(account, passwords), True
            except (DatabaseError, InterfaceError) as error:
                raise Unavailable(message("The database does not answer, which knows of refused passwords")) from error
            if time.monotonic() >= deadline:
                raise Unavailable(message("Another process signs in to the directory"))
            time.sleep(_POLL_SECONDS)

    def _known_unless_refused(self, account: _Account, passwords: Sequence[str]) -> _PasswordHistory:
        known = account.known(passwords)
        if self._tester is None and all(map(known.is_refused, passwords)):
            raise BadCredentials(REFUSED, result_code=49)
        return known

    def _count(self, account: _Account, *, has_worked: bool) -> list[PasswordAttempt]:
        """Count an attempt. A tester learns which limit is reached; other callers only see BadCredentials."""
        try:
            return _without_keeping_connection(lambda: _begin(account, tester=self._tester, has_worked=has_worked))
        except (TooManyWrongPasswords, RateLimited) as refusal:
            if self._tester is not None:
                raise
            raise BadCredentials(_TOO_MANY_WRONG, result_code=49) from refusal
        except (DatabaseError, InterfaceError) as error:
            if self._tester is not None:
                raise
            raise Unavailable(message("The database does not answer, which counts passwords")) from error


def _begin(account: _Account, *, tester: Call | None, has_worked: bool) -> list[PasswordAttempt]:
    """Count an attempt on each account that the bind name stands for in a directory the gateway can reach.

    An account that no directory knows is counted by its name. All such names that one person tries also count
    together, because a name can be spelled in many ways. Raises TooManyWrongPasswords, RateLimited.
    """
    credential = tester.credential.unique_id if tester else ""
    begun: list[PasswordAttempt] = []
    try:
        # The connection that is being opened cannot be asked now.
        besides = None if tester else account.connection_id
        for guid, client in _find_accounts(account.bind_name, besides=besides).items():
            with translate_ldap_errors():
                attempt = password_attempts.begin(client, guid, credential_id=credential, may_take_last=tester is None)
            begun.append(attempt)
        if not begun:
            may_take_last = has_worked or tester is not None
            for subject in (_subject(account.bind_name), *([f"unknown\\{tester.person.id}"] if tester else [])):
                attempt = password_attempts.begin_unknown(
                    subject, credential_id=credential, may_take_last=may_take_last
                )
                begun.append(attempt)
    except BaseException:
        _finish(begun, password_attempts.take_back)
        raise
    return begun


def authenticate(row: DirectoryConnection, client: Client, password: str) -> BindResult:
    """Try a password for the connection's account, unless it is known to be refused, and share the result."""
    account = _Account(row.pk, row.bind_dn)
    if account.known([password]).is_refused(password):
        return BindResult.WRONG
    result = client.authenticate(row.bind_dn, password)
    if result is BindResult.WRONG:
        account.note([password], refused_at=shared_clock.now())
    elif result is BindResult.OK:
        account.note([password], worked_at=shared_clock.now())
    return result


def note_password_set(row: DirectoryConnection) -> None:
    """Let all processes know that the gateway has just set the account's password to the connection's."""
    for url in row.urls:
        _Account(row.pk, row.bind_dn, url).note([row.bind_password], worked_at=shared_clock.now())


_account_lookup: Final = threading.local()


def _find_accounts(bind_name: str, *, besides: UUID | None) -> dict[UUID, Client]:
    """The accounts that a bind name stands for, by objectGUID, each with the client of a directory that knows it."""
    # Reaching one of those directories may mean signing in to it, which comes back here: without this, for ever.
    if getattr(_account_lookup, "is_running", False):
        return {}
    _account_lookup.is_running = True
    try:
        found: dict[UUID, Client] = {}
        for row in DirectoryConnection.objects.filter(enabled=True).order_by("name"):
            if row.pk == besides or not row.is_bind_password_sealed or not _has_working_password(row):
                continue
            try:
                client = get_client(row.pk)
                for sid in accounts_of_bind_name(client, bind_name):
                    entry = client.find(f"<SID={sid_to_text(sid)}>", ("objectGUID",))
                    if entry is not None and "objectGUID" in entry:
                        found.setdefault(entry.guid, client)
            except LdapError:
                continue
        return found
    finally:
        _account_lookup.is_running = False


def _has_working_password(row: DirectoryConnection) -> bool:
    """Whether one of the connection's passwords works at some server."""
    passwords = list(dict.fromkeys((row.bind_password, *other_passwords(row))))
    known = _Account(row.pk, row.bind_dn).known(passwords)
    return any(known.last("worked_at", password) and not known.is_refused(password) for password in passwords)


def _subject(bind_name: str) -> str:
    """What attempts are counted by where no directory knows the account."""
    try:
        return f"bind\\{DistinguishedName.parse(bind_name)}"
    except InvalidValue:
        return f"bind\\{bind_name.strip()}"


def _finish(attempts: list[PasswordAttempt], record: Callable[[PasswordAttempt], object]) -> None:
    """Record how the attempts ended. While the database is away, they stay counted."""
    _despite_database_outage(lambda: _without_keeping_connection(lambda: [record(attempt) for attempt in attempts]))
    attempts.clear()


def _despite_database_outage(work: Callable[[], object]) -> None:
    """Run it; do nothing while the database is away."""
    try:
        work()
    except (DatabaseError, InterfaceError):
        connection.close_if_unusable_or_obsolete()


def _without_keeping_connection(work: Callable[[], _Result]) -> _Result:
    """Run it, and close the database connection if this thread had none before: pool threads would keep theirs open."""
    had_one = connection.connection is not None
    try:
        return work()
    finally:
        if not had_one:
            connection.close()


def _committed_apart(work: Callable[[], _Result]) -> _Result:
    """Run it outside of the caller's transaction, whose rollback would otherwise undo the count."""
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return _without_keeping_connection(work)
    return run_in_background(lambda: _without_keeping_connection(work), "bind-attempts")()
