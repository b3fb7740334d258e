"""Signing in as the gateway without locking its account, however many processes and hosts do so at once.

A password that works is used freely. One that is not known to work is tried by one process at a time and counted like
every password that is tried (`directory.policies.password_attempts`). One that was refused is tried by nobody, until
the connection is changed, somebody asks for a test of it, or `WAIT` is over. What others type for the account counts
against passwords that are not known to work, never against the one that is.
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
from directory.errors import TooManyWrongPasswords, translated
from directory.lookup.connection import get_client, other_passwords
from directory.models import BindPassword, DirectoryConnection, PasswordAttempt
from directory.policies import password_attempts
from directory.protection.bind_accounts import accounts_of_bind_name

WAIT: Final = timedelta(hours=6)
"""For how long a refused password is not tried again: longer than domains remember wrong ones."""
_FRESH: Final = timedelta(seconds=1)
"""For how long after it worked a password is tried by many at once: when a server comes back, all sign in again."""
_ONE_TRY: Final = timedelta(seconds=8)
_KEPT: Final = timedelta(days=90)
_POLL_SECONDS: Final = 0.03

REFUSED: Final = "The directory refused the bind name or the password, which is not tried again for now"
_SPENT: Final = "The password was not tried: there were too many wrong ones for the account"

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Account:
    """The account that a connection signs in with, at one of its servers or (without one) at any.

    What domain controllers said to its passwords is kept for all processes, unless the connection is not saved.
    """

    connection_id: UUID | None
    bind_name: str
    server: str = ""

    def known(self, passwords: Sequence[str]) -> "_Known":
        rows: dict[str, list[BindPassword]] = {password: [] for password in passwords}
        if self.connection_id is not None:
            by_digest = {self._digest(password): password for password in passwords}
            for row in _apart(lambda: list(BindPassword.objects.filter(digest__in=by_digest))):
                rows[by_digest[row.digest]].append(row)
        return _Known(rows, self.server)

    def note(self, passwords: Sequence[str], **values: datetime | None) -> None:
        """Tell all processes; where the database is away, this one goes by what its own pool remembers."""

        def write() -> None:
            for password in passwords:
                digest = self._digest(password)
                BindPassword.objects.update_or_create(digest=digest, server=self.server, defaults=values)
            if "refused_at" in values:
                too_old = shared_clock.now() - _KEPT
                unused = Q(worked_at=None) | Q(worked_at__lt=too_old)
                unused &= Q(refused_at=None) | Q(refused_at__lt=too_old)
                BindPassword.objects.filter(unused, tried_until=None).delete()

        if self.connection_id is not None and passwords:
            _tolerantly(lambda: _apart(write))

    def take_turn(self, password: str) -> bool:
        """Whether this process may try a password that is not known to work; the turn ends by itself."""
        row, _ = BindPassword.objects.get_or_create(digest=self._digest(password), server=self.server)
        now = shared_clock.now()
        is_free = Q(tried_until=None) | Q(tried_until__lt=now)
        return bool(BindPassword.objects.filter(is_free, pk=row.pk).update(tried_until=now + _ONE_TRY))

    def _digest(self, password: str) -> str:
        value = f"{self.connection_id}\0{self.bind_name}\0{password}"
        return salted_hmac("directory.bind_passwords", value, algorithm="sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class _Known:
    """What all processes know of some passwords of one account, by password."""

    rows: dict[str, list[BindPassword]]
    server: str

    def last(self, what: str, password: str, server: str | None = None) -> datetime | None:
        """When it worked (`worked_at`) or was refused (`refused_at`) last, at one server or at any."""
        moments = (getattr(row, what) for row in self.rows[password] if server in (None, row.server))
        return max((moment for moment in moments if moment is not None), default=None)

    def last_worked(self, password: str) -> datetime | None:
        """When this server took it last: another may be nobody's domain controller."""
        return self.last("worked_at", password, self.server)

    def has_just_worked(self, password: str) -> bool:
        worked = self.last_worked(password)
        return worked is not None and worked > shared_clock.now() - _FRESH

    def is_proven(self, password: str) -> bool:
        """Whether this server took it, and none has refused it since."""
        worked, refused = self.last_worked(password), self.last("refused_at", password)
        return worked is not None and (refused is None or refused < worked)

    def is_refused(self, password: str) -> bool:
        """Whether it need not be tried: a server that took it before may be right where another has refused it.

        So may one of which it is not known whether it has heard of a change, when it may have either of two passwords.
        """
        which = self.server if len(self.rows) > 1 or self.last_worked(password) is not None else None
        worked, refused = self.last("worked_at", password, which), self.last("refused_at", password, which)
        return refused is not None and refused > shared_clock.now() - WAIT and (worked is None or worked < refused)


class CountedOpener:
    """Opens a connection's LDAP connections; an `Opener`.

    `tester` is who asked for a test: then a refused password is tried again, and one that is not known to work counts
    for their credential; TooManyWrongPasswords and RateLimited leave it then, else BadCredentials. The password of a
    connection that is not saved is nothing but a guess.
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
        self, account: _Account, settings: ServerSettings, passwords: Sequence[str], known: _Known, deadline: float
    ) -> Connection:
        """The first password is the connection's; the others are the gateway's own, and no guesses."""
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
                found = open_connection(account.server, one, max(0.1, deadline - time.monotonic()))
            except LdapError as error:
                if isinstance(error, BadCredentials) and error.is_wrong_password:
                    wrong.append(password)
                    first = first or error
                    continue
                # A server that says nothing to a stored password is slow, and would otherwise keep the gateway out for
                # half an hour; to somebody's guess it may have said no.
                if self._tester is None or not (isinstance(error, Unavailable) and error.may_have_bound):
                    _end(attempts, password_attempts.take_back)
                raise
            # Not `succeed`: whoever names the servers could have their own say yes, and guess on.
            _end(attempts, password_attempts.take_back)
            account.note(wrong, refused_at=shared_clock.now())
            if not known.has_just_worked(password):
                account.note([password], worked_at=shared_clock.now())
            return found
        if attempts:
            _end(attempts, password_attempts.fail)
        elif wrong:
            _closing(lambda: password_attempts.note_wrong(_subject(account.bind_name)))
        account.note(wrong, refused_at=shared_clock.now())
        raise first or BadCredentials(REFUSED, result_code=49)

    def _wait_for_turn(self, account: _Account, passwords: Sequence[str], deadline: float) -> tuple[_Known, bool]:
        """What is known, and whether this process alone tries the password now; else it has just worked."""
        while True:
            try:
                known = self._known_unless_refused(account, passwords)
                if self._id is None or known.has_just_worked(passwords[0]):
                    return known, False
                if _apart(lambda: account.take_turn(passwords[0])):
                    return self._known_unless_refused(account, passwords), True
            except (DatabaseError, InterfaceError) as error:
                raise Unavailable(message("The database does not answer, which knows of refused passwords")) from error
            if time.monotonic() >= deadline:
                raise Unavailable(message("Another process signs in to the directory"))
            time.sleep(_POLL_SECONDS)

    def _known_unless_refused(self, account: _Account, passwords: Sequence[str]) -> _Known:
        known = account.known(passwords)
        if self._tester is None and all(map(known.is_refused, passwords)):
            raise BadCredentials(REFUSED, result_code=49)
        return known

    def _count(self, account: _Account, *, has_worked: bool) -> list[PasswordAttempt]:
        """Count an attempt for whoever tries the password: a tester is told the limits, other callers are not."""
        try:
            return _closing(lambda: _begin(account, tester=self._tester, has_worked=has_worked))
        except (TooManyWrongPasswords, RateLimited) as refusal:
            if self._tester is not None:
                raise
            raise BadCredentials(_SPENT, result_code=49) from refusal
        except (DatabaseError, InterfaceError) as error:
            if self._tester is not None:
                raise
            raise Unavailable(message("The database does not answer, which counts passwords")) from error


def _begin(account: _Account, *, tester: Call | None, has_worked: bool) -> list[PasswordAttempt]:
    """Count an attempt on the account that a bind name stands for in any directory that can be asked.

    An account that none of them knows counts by its name, and whatever one person tries counts together then: they
    might spell a name in many ways. Raises TooManyWrongPasswords, RateLimited.
    """
    credential = tester.credential.unique_id if tester else ""
    begun: list[PasswordAttempt] = []
    try:
        # The connection that is being opened cannot be asked now.
        besides = None if tester else account.connection_id
        for guid, client in _accounts_meant(account.bind_name, besides=besides).items():
            with translated():
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
        _end(begun, password_attempts.take_back)
        raise
    return begun


def authenticate(row: DirectoryConnection, client: Client, password: str) -> BindResult:
    """What the directory says to a password that a connection may have; one that was refused is not tried again."""
    account = _Account(row.pk, row.bind_dn)
    if account.known([password]).is_refused(password):
        return BindResult.WRONG
    result = client.authenticate(row.bind_dn, password)
    if result is BindResult.WRONG:
        account.note([password], refused_at=shared_clock.now())
    elif result is BindResult.OK:
        account.note([password], worked_at=shared_clock.now())
    return result


def note_given(row: DirectoryConnection) -> None:
    """Let all processes know that the gateway itself has given the account the connection's password."""
    for url in row.urls:
        _Account(row.pk, row.bind_dn, url).note([row.bind_password], worked_at=shared_clock.now())


_looking_up: Final = threading.local()


def _accounts_meant(bind_name: str, *, besides: UUID | None) -> dict[UUID, Client]:
    """The accounts with the client of a directory that knows them; of directories that the gateway signs in to."""
    if getattr(_looking_up, "now", False):  # on the way to one that is asked: they are not asked about each other
        return {}
    _looking_up.now = True
    try:
        found: dict[UUID, Client] = {}
        for row in DirectoryConnection.objects.filter(enabled=True).order_by("name"):
            if row.pk == besides or not row.is_bind_password_sealed or not _works(row):
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
        _looking_up.now = False


def _works(row: DirectoryConnection) -> bool:
    """Whether one of its passwords works somewhere."""
    passwords = list(dict.fromkeys((row.bind_password, *other_passwords(row))))
    known = _Account(row.pk, row.bind_dn).known(passwords)
    return any(known.last("worked_at", password) and not known.is_refused(password) for password in passwords)


def _subject(bind_name: str) -> str:
    """What attempts are counted for while nobody knows the account."""
    try:
        return f"bind\\{DistinguishedName.parse(bind_name)}"
    except InvalidValue:
        return f"bind\\{bind_name.strip()}"


def _end(attempts: list[PasswordAttempt], how: Callable[[PasswordAttempt], object]) -> None:
    """Note how they ended; where it cannot be noted they stay counted."""
    _tolerantly(lambda: _closing(lambda: [how(attempt) for attempt in attempts]))
    attempts.clear()


def _tolerantly(work: Callable[[], object]) -> None:
    """Do it unless the database is away."""
    try:
        work()
    except (DatabaseError, InterfaceError):
        connection.close_if_unusable_or_obsolete()


def _closing(work: Callable[[], _Result]) -> _Result:
    """Do it in the database; a thread that has no connection to it keeps none."""
    had_one = connection.connection is not None
    try:
        return work()
    finally:
        if not had_one:
            connection.close()


def _apart(work: Callable[[], _Result]) -> _Result:
    """Do it in the database so that it stays done, whatever becomes of the transaction that is open here."""
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return _closing(work)
    return run_in_background(lambda: _closing(work), "bind-attempts")()
