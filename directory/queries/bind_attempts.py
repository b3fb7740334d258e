"""Signing in as the gateway without locking its account, however many processes and hosts do so at once.

A password that works is used freely. One that is not known to work is tried by one process at a time and counted like
every password that is tried (`directory.policies.password_attempts`). One that was refused is tried by nobody, until
the connection is changed, somebody asks for a test of it, or `WAIT` is over. What others type for the account counts
against passwords that are not known to work, never against the one that is.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    is_wrong_password,
    open_connection,
    sid_to_text,
)
from core.call import Call
from core.database import shared_clock
from core.errors import RateLimited
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
class _Known:
    """What all processes know of some passwords of one connection, by password."""

    rows: dict[str, list[BindPassword]]
    server: str

    def is_proven(self, password: str) -> bool:
        """Whether this server took it, and none has refused it since: another may be nobody's domain controller."""
        worked, refused = self._last("worked_at", password, self.server), self._last("refused_at", password)
        return worked is not None and (refused is None or refused < worked)

    def has_worked(self, password: str) -> bool:
        return self._last("worked_at", password, self.server) is not None

    def is_refused(self, password: str) -> bool:
        """Whether it need not be tried: a server that took it before may be right where another has refused it.

        So may one of which it is not known whether it has heard of a change, when it may have either of two passwords.
        """
        is_here = len(self.rows) > 1 or self.has_worked(password)
        which = self.server if is_here else None
        worked, refused = self._last("worked_at", password, which), self._last("refused_at", password, which)
        return refused is not None and refused > shared_clock.now() - WAIT and (worked is None or worked < refused)

    def works_somewhere(self, password: str) -> bool:
        return self._last("worked_at", password) is not None and not self.is_refused(password)

    def _last(self, what: str, password: str, server: str | None = None) -> datetime | None:
        moments = (getattr(row, what) for row in self.rows[password] if server in (None, row.server))
        return max((moment for moment in moments if moment is not None), default=None)

    def worked_since(self, password: str, moment: datetime) -> bool:
        worked = self._last("worked_at", password, self.server)
        return worked is not None and worked > moment


class CountedOpener:
    """Opens a connection's LDAP connections; an `Opener`.

    `tester` is who asked for a test: then a refused password is tried again, and one that is not known to work counts
    for their credential; TooManyWrongPasswords and RateLimited leave it then, else BadCredentials. The password of a
    connection that is not saved is nothing but a guess.
    """

    def __init__(self, row: DirectoryConnection, tester: Call | None = None) -> None:
        self._id: UUID | None = None if row._state.adding else row.pk
        self._tester = tester
        self._worked: dict[str, float] = {}

    def __call__(self, url: str, settings: ServerSettings, seconds: float) -> Connection:
        passwords = list(dict.fromkeys((settings.bind_password, *settings.other_passwords)))
        if time.monotonic() - self._worked.get(url, -_FRESH.total_seconds()) < _FRESH.total_seconds():
            return self._try_each(url, settings, passwords, None, time.monotonic() + seconds)
        deadline = time.monotonic() + seconds
        known, has_turn = self._wait_for_turn(url, settings, passwords, deadline)
        try:
            return self._try_each(url, settings, passwords, known, deadline)
        finally:
            if has_turn:
                self._note(url, settings, passwords[:1], tried_until=None)

    def _try_each(
        self, url: str, settings: ServerSettings, passwords: Sequence[str], known: _Known | None, deadline: float
    ) -> Connection:
        """`known` is None where the first password has just worked. The others are the gateway's own: no guesses."""
        attempts: list[PasswordAttempt] = []
        if known is not None and not known.is_proven(passwords[0]):
            began = time.monotonic()
            attempts = self._begin(settings.bind_dn, may_take_last=known.has_worked(passwords[0]))
            deadline += time.monotonic() - began
        wrong: list[str] = []
        first: BadCredentials | None = None
        for password in passwords:
            if len(passwords) > 1 and known is not None and self._tester is None and known.is_refused(password):
                continue
            one = replace(settings, bind_password=password, other_passwords=())
            try:
                found = open_connection(url, one, max(0.1, deadline - time.monotonic()))
            except BadCredentials as refused:
                if not is_wrong_password(refused):
                    _end(attempts, password_attempts.take_back)
                    raise
                wrong.append(password)
                first = first or refused
            except LdapError as error:
                # A server that says nothing to a stored password is slow, and would otherwise keep the gateway out for
                # half an hour; to somebody's guess it may have said no.
                if self._tester is None or not (isinstance(error, Unavailable) and error.may_have_bound):
                    _end(attempts, password_attempts.take_back)
                raise
            else:
                # Not `succeed`: whoever names the servers could have their own say yes, and guess on.
                _end(attempts, password_attempts.take_back)
                self._worked[url] = time.monotonic()
                self._note(url, settings, wrong, refused_at=shared_clock.now())
                if known is not None:
                    self._note(url, settings, [password], worked_at=shared_clock.now())
                return found
        if attempts:
            _end(attempts, password_attempts.fail)
        elif wrong:
            _closing(lambda: password_attempts.note_wrong(_subject(settings.bind_dn)))
        self._worked.pop(url, None)
        self._note(url, settings, wrong, refused_at=shared_clock.now())
        raise first or BadCredentials(REFUSED, result_code=49)

    def _wait_for_turn(
        self, url: str, settings: ServerSettings, passwords: Sequence[str], deadline: float
    ) -> tuple[_Known, bool]:
        """What is known, and whether this process alone tries the password now; else it has just worked."""
        while True:
            try:
                known = self._read_unless_refused(url, settings, passwords)
                if self._id is None or known.worked_since(passwords[0], shared_clock.now() - _FRESH):
                    return known, False
                if _apart(lambda: self._take_turn(url, settings, passwords[0])):
                    return self._read_unless_refused(url, settings, passwords), True
            except (DatabaseError, InterfaceError) as error:
                raise Unavailable("The database does not answer, which knows of refused passwords") from error
            if time.monotonic() >= deadline:
                raise Unavailable("Another process signs in to the directory")
            time.sleep(_POLL_SECONDS)

    def _read_unless_refused(self, url: str, settings: ServerSettings, passwords: Sequence[str]) -> _Known:
        known = _apart(lambda: self._read(url, settings, passwords))
        if self._tester is None and all(known.is_refused(password) for password in passwords):
            raise BadCredentials(REFUSED, result_code=49)
        return known

    def _read(self, url: str, settings: ServerSettings, passwords: Sequence[str]) -> _Known:
        if self._id is None:
            return _Known({password: [] for password in passwords}, url)
        return _read(self._id, url, settings.bind_dn, passwords)

    def _take_turn(self, url: str, settings: ServerSettings, password: str) -> bool:
        assert self._id is not None
        digest = _digest(self._id, settings.bind_dn, password)
        row, _ = BindPassword.objects.get_or_create(digest=digest, server=url)
        now = shared_clock.now()
        is_free = Q(tried_until=None) | Q(tried_until__lt=now)
        return bool(BindPassword.objects.filter(is_free, pk=row.pk).update(tried_until=now + _ONE_TRY))

    def _note(self, url: str, settings: ServerSettings, passwords: Sequence[str], **values: datetime | None) -> None:
        """Tell all processes; where the database is away, this one goes by what its own pool remembers."""
        if self._id is None or not passwords:
            return

        connection_id = self._id
        try:
            _apart(lambda: _write(connection_id, url, settings.bind_dn, passwords, **values))
        except (DatabaseError, InterfaceError):
            connection.close_if_unusable_or_obsolete()

    def _begin(self, bind_name: str, *, may_take_last: bool) -> list[PasswordAttempt]:
        if self._tester is not None:
            return _closing(lambda: _begin(bind_name, tester=self._tester))
        try:
            return _closing(lambda: _begin(bind_name, besides=self._id, may_take_last=may_take_last))
        except (TooManyWrongPasswords, RateLimited) as refusal:
            raise BadCredentials(_SPENT, result_code=49) from refusal
        except (DatabaseError, InterfaceError) as error:
            raise Unavailable("The database does not answer, which counts passwords") from error


def _begin(
    bind_name: str, *, tester: Call | None = None, besides: UUID | None = None, may_take_last: bool = False
) -> list[PasswordAttempt]:
    """Count an attempt on the account that a bind name stands for in any directory that can be asked.

    An account that none of them knows counts by its name, and whatever one person tries counts together then: they
    might spell a name in many ways. `besides` is a connection that cannot be asked now. Raises TooManyWrongPasswords,
    RateLimited.
    """
    credential = tester.credential.unique_id if tester else ""
    begun: list[PasswordAttempt] = []
    try:
        for account, client in _accounts_meant(bind_name, besides=besides).items():
            with translated():
                attempt = password_attempts.begin(
                    client, account, credential_id=credential, may_take_last=tester is None
                )
            begun.append(attempt)
        if not begun:
            may_take_last = may_take_last or tester is not None
            for subject in (_subject(bind_name), *([f"unknown\\{tester.person.id}"] if tester else [])):
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
    if _apart(lambda: _read(row.pk, "", row.bind_dn, [password])).is_refused(password):
        return BindResult.WRONG
    result = client.authenticate(row.bind_dn, password)
    now = shared_clock.now()
    if result is BindResult.WRONG:
        _apart(lambda: _write(row.pk, "", row.bind_dn, [password], refused_at=now))
    elif result is BindResult.OK:
        _apart(lambda: _write(row.pk, "", row.bind_dn, [password], worked_at=now))
    return result


def note_given(row: DirectoryConnection) -> None:
    """Let all processes know that the gateway itself has given the account the connection's password."""

    def write() -> None:
        for url in row.urls:
            _write(row.pk, url, row.bind_dn, [row.bind_password], worked_at=shared_clock.now())

    _apart(write)


_looking_up: Final = threading.local()


def _accounts_meant(bind_name: str, *, besides: UUID | None) -> dict[UUID, Client]:
    """The accounts with the client of a directory that knows them; of directories that the gateway signs in to."""
    if getattr(
        _looking_up, "now", False
    ):  # the way to one of those that are asked: they are not asked about each other
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
    passwords = list(dict.fromkeys((row.bind_password, *other_passwords(row))))
    known = _apart(lambda: _read(row.pk, "", row.bind_dn, passwords))
    return any(map(known.works_somewhere, passwords))


def _read(connection_id: UUID, url: str, bind_name: str, passwords: Sequence[str]) -> _Known:
    by_digest = {_digest(connection_id, bind_name, password): password for password in passwords}
    rows: dict[str, list[BindPassword]] = {password: [] for password in passwords}
    for row in BindPassword.objects.filter(digest__in=by_digest):
        rows[by_digest[row.digest]].append(row)
    return _Known(rows, url)


def _write(connection_id: UUID, url: str, bind_name: str, passwords: Sequence[str], **values: datetime | None) -> None:
    for password in passwords:
        digest = _digest(connection_id, bind_name, password)
        BindPassword.objects.update_or_create(digest=digest, server=url, defaults=values)
    if "refused_at" in values:
        too_old = shared_clock.now() - _KEPT
        unused = Q(worked_at=None) | Q(worked_at__lt=too_old)
        BindPassword.objects.filter(unused, Q(refused_at=None) | Q(refused_at__lt=too_old), tried_until=None).delete()


def _digest(connection_id: UUID, bind_name: str, password: str) -> str:
    value = f"{connection_id}\0{bind_name}\0{password}"
    return salted_hmac("directory.bind_passwords", value, algorithm="sha256").hexdigest()


def _subject(bind_name: str) -> str:
    """What attempts are counted for while nobody knows the account."""
    try:
        return f"bind\\{DistinguishedName.parse(bind_name)}"
    except InvalidValue:
        return f"bind\\{bind_name.strip()}"


def _end(attempts: list[PasswordAttempt], how: Callable[[PasswordAttempt], object]) -> None:
    """Note how they ended; where it cannot be noted they stay counted."""
    try:
        _closing(lambda: [how(attempt) for attempt in attempts])
    except (DatabaseError, InterfaceError):
        connection.close_if_unusable_or_obsolete()
    attempts.clear()


@contextmanager
def _brief_connection() -> Iterator[None]:
    """A thread that has no connection to the database keeps none."""
    had_one = connection.connection is not None
    try:
        yield
    finally:
        if not had_one:
            connection.close()


def _closing(work: Callable[[], _Result]) -> _Result:
    with _brief_connection():
        return work()


def _apart(work: Callable[[], _Result]) -> _Result:
    """Do it in the database so that it stays done, whatever becomes of the transaction that is open here."""
    if connection.vendor != "postgresql" or not connection.in_atomic_block:
        return _closing(work)
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(_closing(work))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it gets it
            errors.append(error)

    thread = threading.Thread(target=run, name="bind-attempts")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
