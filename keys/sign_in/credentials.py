"""Verify a user name and password, of a local account or in a directory. `sessions` makes the session that follows.

API callers get the same answer whatever was wrong; a page may tell more to those who knew the password. In a directory
a password is tried only as long as a wrong one cannot lock the account out of the domain. The directory's errors leave
this module as GatewayError.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.http import HttpRequest

from active_directory import And, BindResult, Client, Entry, Equals, Filter, Not, Scope
from audit import security
from core.call import Call
from core.errors import GatewayError, Unauthorized
from core.text.invisible import mark_invisible
from core.text.names import name_key
from directory import errors as directory_errors
from directory.errors import TooManyWrongPasswords
from directory.lookup.connection import get_client
from directory.models import DirectoryConnection
from directory.policies import password_attempts
from keys.callers import client_address, origin_of
from keys.models import FailedSignIn, Person
from keys.people import account_status
from keys.sign_in import login_throttle

MAX_PASSWORD = 1024


class Reason(Enum):
    """Why a person was not signed in, for the security log.

    All but the first six imply that the password was right, so that a page may show them.
    """

    UNUSABLE = "sign-in without a usable name or password"
    WRONG = "wrong name or password"
    TOO_OFTEN = "sign-in locked after too many failures"
    SPENT = "sign-in paused before the directory locks the account"
    PASSKEY = "passkey not accepted"
    INVITATION = "invitation not accepted"
    DEACTIVATED = "person deactivated"
    PASSWORD_EXPIRED = "password expired"  # noqa: S105 - a reason, not a secret
    MUST_CHANGE_PASSWORD = "password must be changed"  # noqa: S105
    ACCOUNT_DISABLED = "account disabled"
    ACCOUNT_EXPIRED = "account expired"
    NOT_NOW = "account may not sign in at this time or from here"
    PROVIDER = "answer of a sign-in provider not believed"
    NO_PASSWORDS = "passwords are switched off"
    CODE_MISSING = "no code of the second factor"
    CODE_WRONG = "wrong code of the second factor"
    CODES_TOO_OFTEN = "second factor locked after too many wrong codes"


# AD gives only these answers after a right password. It reports a lock-out whatever the password (seen on Samba, and
# known of Windows), so LOCKED counts as a wrong password.
_REASONS_AFTER_RIGHT_PASSWORD = {
    BindResult.DISABLED: Reason.ACCOUNT_DISABLED,
    BindResult.EXPIRED: Reason.ACCOUNT_EXPIRED,
    BindResult.MUST_CHANGE: Reason.MUST_CHANGE_PASSWORD,
    BindResult.PASSWORD_EXPIRED: Reason.PASSWORD_EXPIRED,
    BindResult.NOT_ALLOWED_NOW: Reason.NOT_NOW,
}


class SignInRefused(Unauthorized):
    """The sign-in failed. API callers see an ordinary 401; `reason` is for pages and the log.

    `facts` identify the person in the log, only if the name is a known one: people type passwords as names, too.
    """

    def __init__(self, reason: Reason, **facts: str) -> None:
        super().__init__()
        self.reason = reason
        self.facts = facts


def verify(
    request: HttpRequest | None,
    *,
    username: str,
    password: str,
    directory: str | None = None,
    is_sign_in: bool = True,
) -> Person:
    """Verify a user name and password, before any second factor, and return the person.

    With `SignIn:PasswordForm` off, only the break-glass account signs in with one.

    `directory` is a connection's name, None for a local account; a user name `CONNECTION\\name` says the same. Raises
    SignInRefused, or the directory's error if it does not answer.
    """
    if directory is None and "\\" in username:  # no local account has such a name
        directory, username = username.split("\\", 1)
    try:
        # LDAP treats a bind without a password as an unauthenticated one, which succeeds (RFC 4513 section 5.1.2).
        if not password or not username or len(password) > MAX_PASSWORD or "\0" in username + password:
            raise SignInRefused(Reason.UNUSABLE)
        if is_sign_in and not may_use_password(username, directory):
            raise SignInRefused(Reason.NO_PASSWORDS)
        if directory is None:
            person = _verify_local(request, username, password)
        else:
            person = _verify_in_directory(request, directory, username, password)
        if not person.is_active and person.left_directory_at is None:  # `readmit` lets people back in who had left
            raise SignInRefused(Reason.DEACTIVATED, person=person.username)
    except SignInRefused as refusal:
        log_refusal(request, refusal)
        raise
    return person


def may_use_password(username: str, directory: str | None) -> bool:
    """Whether people, or at least this account, may sign in with a password."""
    configured = settings.CONFIGURATION.SignIn
    return configured.PasswordForm or (directory is None and username == configured.BreakGlassAccount)


def log_refusal(request: HttpRequest | Call | None, refusal: SignInRefused) -> None:
    """Log why a person was not signed in."""
    security.log_refusal(refusal.reason.value, kind=security.RefusalKind.SIGN_IN, **origin_of(request), **refusal.facts)


def _verify_local(request: HttpRequest | None, username: str, password: str) -> Person:
    person = Person.objects.filter(username=username, connection__isnull=True).first()
    facts = {"person": person.username} if person else {}
    attempt = _begin(request, f"\\{username}", facts, device=login_throttle.find_device(request, person))
    if person is None:
        make_password(password)  # as slow as a wrong password, so that the time does not reveal which names exist
    if person is None or not person.check_password(password):
        login_throttle.fail(attempt)
        raise SignInRefused(Reason.WRONG, **facts)
    login_throttle.take_back(attempt)
    return person


def _verify_in_directory(request: HttpRequest | None, directory: str, username: str, password: str) -> Person:
    connection = DirectoryConnection.objects.filter(name__iexact=directory, enabled=True).first()
    if connection is None:
        login_throttle.fail(_begin(request, f"{directory}\\{username}", {}))
        raise SignInRefused(Reason.WRONG)
    account = find_account(connection, username)
    facts = {"directory": connection.name}
    if account.entry:
        facts["object_guid"] = str(account.entry.guid)
    device = login_throttle.find_device(request, account.person)
    attempt = _begin(request, account.subject, facts, device=device)
    try:
        result = try_password(account, password, is_known_device=device is not None)
    except TooManyWrongPasswords:
        login_throttle.take_back(attempt)
        raise SignInRefused(Reason.SPENT, **facts) from None
    except GatewayError:
        login_throttle.take_back(attempt)
        raise
    if result is BindResult.OK:
        login_throttle.take_back(attempt)
        return find_or_create_person(account)
    if result in _REASONS_AFTER_RIGHT_PASSWORD:
        login_throttle.take_back(attempt)
        raise SignInRefused(_REASONS_AFTER_RIGHT_PASSWORD[result], **facts)
    login_throttle.fail(attempt)
    raise SignInRefused(Reason.WRONG, **facts)


def _begin(
    request: HttpRequest | None, subject: str, facts: Mapping[str, str], *, device: str | None = None
) -> FailedSignIn:
    """Count an attempt. A known device has its own count, so that others' attempts cannot lock its person out."""
    if device is not None:
        attempt = login_throttle.begin(f"device\0{device}", None)
    else:
        attempt = login_throttle.begin(subject, client_address(request))
    if attempt is None:
        raise SignInRefused(Reason.TOO_OFTEN, **facts)
    return attempt


ACCOUNT_ATTRIBUTES = (*account_status.ATTRIBUTES, "sAMAccountName", "displayName", "name")


@dataclass(frozen=True, slots=True)
class Account:
    """The account whose password is tried. `entry` is None if no account of the directory has this name."""

    connection: DirectoryConnection
    client: Client
    name: str
    entry: Entry | None

    @property
    def subject(self) -> str:
        """What attempts are counted by: the account, in any spelling of its name, or else the unknown name."""
        return f"{self.connection.id}\\{self.entry.guid if self.entry else self.name}"

    @property
    def person(self) -> Person | None:
        """The person who has signed in with this account before, if any."""
        if self.entry is None:
            return None
        return Person.objects.filter(connection=self.connection, object_guid=self.entry.guid).first()


def find_account(connection: DirectoryConnection, name: str) -> Account:
    """Find an account by sAMAccountName, with or without a domain before it (DOMAIN\\name), or by userPrincipalName."""
    name = name.rpartition("\\")[2]
    # [MS-ADTS] 3.1.1.8.1.3: a sAMAccountName cannot contain @, so a name is never both.
    attribute = "userPrincipalName" if "@" in name else "sAMAccountName"
    found = accounts_where(connection, Equals(attribute, name))
    return (
        replace(found[0], name=name) if len(found) == 1 else Account(connection, get_client(connection.id), name, None)
    )


def accounts_where(connection: DirectoryConnection, condition: Filter) -> list[Account]:
    """At most two of the accounts of people in a directory that meet a condition."""
    client = get_client(connection.id)
    people = And(Equals("objectClass", "user"), Not(Equals("objectClass", "computer")), condition)
    with directory_errors.translate_ldap_errors():
        entries = client.search(connection.base_dn, Scope.SUBTREE, people, ACCOUNT_ATTRIBUTES, limit=2)
        return [Account(connection, client, entry.text("sAMAccountName") or "", entry) for entry in entries]


def try_password(account: Account, password: str, *, is_known_device: bool) -> BindResult:
    """Try a password by a bind; raises TooManyWrongPasswords if a wrong one might lock the account out.

    The last attempt before that is reserved for known devices, so that strangers cannot use it up.
    """
    # Unknown names are tried too, so that the time does not reveal which names exist. They are not sent as typed: AD
    # accepts display names and other forms in a bind ([MS-ADTS] 5.1.1.1.1), and would count the attempt for an account
    # for which it is not counted here.
    entry = account.entry
    nobody = f"CN={uuid4()},{account.connection.base_dn}"
    with directory_errors.translate_ldap_errors():
        try:
            attempt = password_attempts.begin(
                account.client, entry.guid if entry else None, name=account.subject, may_take_last=is_known_device
            )
        except directory_errors.TooManyWrongPasswords:
            account.client.authenticate(nobody, password)  # takes as long as a real attempt
            raise
        # If no answer comes, the domain controller may have checked the password: the attempt stays counted.
        result = account.client.authenticate(entry.dn if entry else nobody, password)
    result = result if entry else BindResult.WRONG
    if result is BindResult.OK:
        password_attempts.succeed(attempt)
    elif result in (BindResult.WRONG, BindResult.LOCKED):
        password_attempts.fail(attempt)
    else:
        password_attempts.take_back(attempt)
    return result


def find_or_create_person(account: Account) -> Person:
    """The person of an account, created at the first sign-in, with present names and memberships.

    A new person may do only what the groups of the account stand for. Raises Unavailable if the directory does not
    answer.
    """
    connection, entry = account.connection, account.entry
    assert entry is not None
    username = mark_invisible(f"{connection.name}\\{entry.text('sAMAccountName')}")[:255]
    display_name = mark_invisible(entry.text("displayName") or entry.text("name") or "")[:256]
    with transaction.atomic():
        person, is_new = Person.objects.get_or_create(
            connection=connection,
            object_guid=entry.guid,
            defaults={"username": f"{connection.name}\\{entry.guid}", "password": make_password(None)},
        )
        if is_new or (person.username, person.display_name) != (username, display_name):
            # The directory may have given the name of an earlier account to this one: then the earlier person loses the
            # name. But a name that only looks like another one must not be shown: then the objectGUID replaces it.
            for other in Person.objects.filter(name_key=name_key(username)[:255]).exclude(pk=person.pk):
                if other.username.casefold() != username.casefold():
                    username = f"{connection.name}\\{entry.guid}"
                    break
                other.username = f"{connection.name}\\{other.object_guid}"
                other.save(update_fields=["username"])
            person.username, person.display_name = username, display_name
            person.save(update_fields=["username", "display_name"])
        account_status.note_sign_in(person, entry)
    account_status.update_groups(person, account.client)
    return person
