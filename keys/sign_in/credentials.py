"""Verify a user name and password. The session that follows is made by `sessions`.

A caller over HTTP hears the same whatever was wrong. A page may tell those who knew the password more.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from django.contrib.auth.hashers import make_password
from django.http import HttpRequest

from active_directory import BindResult
from audit import security
from core.call import Call
from core.errors import GatewayError, Unauthorized
from directory.errors import TooManyWrongPasswords
from directory.models import DirectoryConnection
from keys.models import FailedSignIn, Person
from keys.sign_in import directory_people, known_devices, login_throttle

MAX_PASSWORD = 1024


class Reason(Enum):
    """Why somebody is not signed in, as the security log says it.

    Those after the first four prove that the password was right, so that telling them tells nobody else anything.
    """

    UNUSABLE = "sign-in without a usable name or password"
    WRONG = "wrong name or password"
    TOO_OFTEN = "sign-in locked after too many failures"
    SPENT = "sign-in paused before the directory locks the account"
    DEACTIVATED = "person deactivated"
    PASSWORD_EXPIRED = "password expired"  # noqa: S105 - a reason, not a secret
    MUST_CHANGE_PASSWORD = "password must be changed"  # noqa: S105
    ACCOUNT_DISABLED = "account disabled"
    ACCOUNT_EXPIRED = "account expired"
    NOT_NOW = "account may not sign in at this time or from here"
    CODE_MISSING = "no code of the second factor"
    CODE_WRONG = "wrong code of the second factor"
    CODES_TOO_OFTEN = "second factor locked after too many wrong codes"


# Of what AD says only these follow a right password: it tells of a lock-out whatever the password (seen on Samba, and
# known of Windows), so that is as good as a wrong one here.
_AFTER_A_RIGHT_PASSWORD = {
    BindResult.DISABLED: Reason.ACCOUNT_DISABLED,
    BindResult.EXPIRED: Reason.ACCOUNT_EXPIRED,
    BindResult.MUST_CHANGE: Reason.MUST_CHANGE_PASSWORD,
    BindResult.PASSWORD_EXPIRED: Reason.PASSWORD_EXPIRED,
    BindResult.NOT_ALLOWED_NOW: Reason.NOT_NOW,
}


class SignInRefused(Unauthorized):
    """Nobody is signed in. Its problem is that of every 401; `reason` is for the page and the log.

    `facts` say to the log whom it concerned, if somebody of that name is known: people type passwords as names, too.
    """

    def __init__(self, reason: Reason, **facts: str) -> None:
        super().__init__()
        self.reason = reason
        self.facts = facts


def verify(request: HttpRequest | None, *, username: str, password: str, directory: str | None = None) -> Person:
    """The person whose name and password these are, before any second factor.

    `directory` is a connection's name, None for a local account; `CONNECTION\\name` says the same. Raises
    SignInRefused, or an error of the directory when it cannot be asked.
    """
    if directory is None and "\\" in username:  # no local account has such a name
        directory, username = username.split("\\", 1)
    try:
        # AD takes a bind without a password for an anonymous one, and answers that it succeeded.
        if not password or not username or len(password) > MAX_PASSWORD or "\0" in username + password:
            raise SignInRefused(Reason.UNUSABLE)
        if directory is None:
            person = _verify_local(request, username, password)
        else:
            person = _verify_in_directory(request, directory, username, password)
        if not person.is_active and person.left_directory_at is None:  # the directory takes back whom it let go
            raise SignInRefused(Reason.DEACTIVATED, person=person.username)
    except SignInRefused as refusal:
        log_refusal(request, refusal)
        raise
    return person


def client_address(request: HttpRequest | Call | None) -> str:
    """Where a request, or the call that was made of it, comes from."""
    return getattr(request, "client_address", None) or ""


def origin_of(request: HttpRequest | Call | None) -> dict[str, Any]:
    """The same for the security log, with the request's id."""
    return {"client_address": client_address(request) or None, "request_id": getattr(request, "request_id", "")}


def log_refusal(request: HttpRequest | Call | None, refusal: SignInRefused) -> None:
    """Write down why somebody is not signed in."""
    security.refused(refusal.reason.value, kind=security.Refused.SIGN_IN, **origin_of(request), **refusal.facts)


def _verify_local(request: HttpRequest | None, username: str, password: str) -> Person:
    person = Person.objects.filter(username=username, connection__isnull=True).first()
    facts = {"person": person.username} if person else {}
    attempt = _begin(request, f"\\{username}", facts, device=known_devices.find(request, person))
    if person is None:
        make_password(password)  # as slow as a wrong password, so that the time does not tell which names exist
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
    account = directory_people.find_account(connection, username)
    facts = {"directory": connection.name}
    if account.entry:
        facts["object_guid"] = str(account.entry.guid)
    device = known_devices.find(request, account.person)
    attempt = _begin(request, account.subject, facts, device=device)
    try:
        result = directory_people.try_password(account, password, is_known_device=device is not None)
    except TooManyWrongPasswords:
        login_throttle.take_back(attempt)
        raise SignInRefused(Reason.SPENT, **facts) from None
    except GatewayError:
        login_throttle.take_back(attempt)
        raise
    if result is BindResult.OK:
        login_throttle.take_back(attempt)
        return directory_people.person_of(account)
    if result in _AFTER_A_RIGHT_PASSWORD:
        login_throttle.take_back(attempt)
        raise SignInRefused(_AFTER_A_RIGHT_PASSWORD[result], **facts)
    login_throttle.fail(attempt)
    raise SignInRefused(Reason.WRONG, **facts)


def _begin(
    request: HttpRequest | None, subject: str, facts: Mapping[str, str], *, device: str | None = None
) -> FailedSignIn:
    """Count an attempt: on a device that is known for itself, so that it does not matter what others try elsewhere."""
    if device is not None:
        attempt = login_throttle.begin(f"device\0{device}", None)
    else:
        attempt = login_throttle.begin(subject, client_address(request))
    if attempt is None:
        raise SignInRefused(Reason.TOO_OFTEN, **facts)
    return attempt
