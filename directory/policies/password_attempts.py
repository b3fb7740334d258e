"""Counting attempts at an account's password, so that the gateway never locks the account.

Every code path that tries a domain account's password begins an attempt here first, on every surface and host: sign-in,
changing a password with the present one, testing a connection, and using a connection's password that is not known to
be right (`directory.queries.bind_attempts`). The database counts the attempt before the directory is asked. Wrong
passwords that the domain controller has counted elsewhere count too, so the lock-out threshold is never reached.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Min
from django.utils import timezone
from django.utils.crypto import salted_hmac

from active_directory import Client, Entry, Modify, Write, filetime_to_datetime
from core.database.own_rows import lock_record
from core.errors import RateLimited
from core.text.messages import message
from directory import errors
from directory.models import PasswordAttempt
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicy, PolicyReader

State = PasswordAttempt.State

_LEFT_FOR_OTHERS = 2
"""How many of the wrong passwords that the policy allows are left for the person's other devices."""
_MAX_WINDOW = timedelta(days=30)
_ATTRIBUTES = (RESULTANT_POLICY, "badPwdCount", "badPasswordTime")


@dataclass(frozen=True, slots=True)
class _Lockout:
    """An account is locked after `threshold` wrong passwords, each within `window` of the one before.

    `is_server_count_used` is whether the domain controller's own count matters.
    """

    threshold: int
    window: timedelta
    is_server_count_used: bool = True

    def allowed(self, *, may_take_last: bool) -> int:
        """How many wrong passwords are allowed, at least one below the threshold: none with a threshold of 1."""
        return max(min(1, self.threshold - 1), self.threshold - (1 if may_take_last else _LEFT_FOR_OTHERS))


_NEVER_LOCKS = _Lockout(22, timedelta(minutes=15), is_server_count_used=False)
_UNREADABLE_POLICY = _Lockout(3, timedelta(hours=1))
_UNKNOWN_ACCOUNT = _Lockout(3, timedelta(minutes=30), is_server_count_used=False)


def tries_password(write: Write) -> bool:
    """Whether a write tries an account's present password: a change deletes the old value, a reset replaces it."""
    return isinstance(write, Modify) and any(
        step.op == "delete" and step.attribute.lower() == "unicodepwd" and step.values for step in write.modifications
    )


def require_attempt_left(client: Client, account: UUID) -> None:
    """Raise TooManyWrongPasswords if no attempt may be made now."""
    take_back(begin(client, account))


def begin(
    client: Client,
    account: UUID | None,
    *,
    name: str = "",
    credential_id: str = "",
    may_take_last: bool = False,
) -> PasswordAttempt:
    """Count an attempt on an account until its result is recorded; raises TooManyWrongPasswords, or LdapError.

    A `name` that no account has is counted by the domain's policy, with the same searches as for an account, so that
    neither the answer nor its time reveals which names exist. Raises RateLimited for a credential that has given wrong
    passwords for too many other accounts. Only callers who `may_take_last` get the last attempt below the threshold.
    """
    digest = _digest_of(str(account) if account is not None else name)
    # Read before the directory's count: attempts that end in between are counted twice at worst, but never missed.
    ended = _ended_attempts(digest)
    entry = client.find(account or uuid4(), _ATTRIBUTES)
    lockout = _lockout_of(client, entry)
    counted = _counted_by_server(entry, lockout)
    return _count(digest, lockout, ended, *counted, credential_id=credential_id, may_take_last=may_take_last)


def begin_unknown(subject: str, *, credential_id: str = "", may_take_last: bool = False) -> PasswordAttempt:
    """Count an attempt on an account that no directory knows, as if the third wrong password locked it."""
    digest = _digest_of(subject)
    return _count(
        digest,
        _UNKNOWN_ACCOUNT,
        _ended_attempts(digest),
        0,
        None,
        credential_id=credential_id,
        may_take_last=may_take_last,
    )


def note_wrong(subject: str) -> None:
    """Count a wrong password that was not counted before it was tried, because it was known to be right."""
    PasswordAttempt.objects.create(account_digest=_digest_of(subject), state=State.WRONG)


# A keyed hash: the table must not list the accounts, or the names that people mistyped.
def _digest_of(subject: str) -> str:
    return salted_hmac("directory.password_attempts", subject.casefold(), algorithm="sha256").hexdigest()


def _ended_attempts(digest: str) -> set[int]:
    ended = PasswordAttempt.objects.filter(account_digest=digest, state=State.WRONG)
    return set(ended.values_list("pk", flat=True))


def _count(
    digest: str,
    lockout: _Lockout,
    ended: set[int],
    counted: int,
    counted_at: datetime | None,
    *,
    credential_id: str,
    may_take_last: bool,
) -> PasswordAttempt:
    rows = PasswordAttempt.objects.filter(account_digest=digest)
    # Inside another transaction the locks would be held until that ends, and block other sign-ins.
    is_own = not connection.in_atomic_block
    with transaction.atomic():
        if credential_id:
            if is_own:
                lock_record("password-attempts", credential_id)
            _require_few_targets(credential_id, digest)
        if is_own:
            lock_record("password-attempts", digest)
        now = timezone.now()
        known, since, last = 0, 0, counted_at
        previous = now
        for pk, at, state in rows.exclude(state=State.PAST).order_by("-at", "-pk").values_list("pk", "at", "state"):
            # As in the directory, a pause of a whole window begins the count anew.
            if previous - at >= lockout.window:
                break
            previous = at
            last = max(last, at) if last else at
            if pk in ended and state == State.WRONG:
                known += 1
            else:
                since += 1
        # The directory has counted the attempts that had ended before it was asked (`known`), but none since.
        if max(known, counted) + since >= lockout.allowed(may_take_last=may_take_last):
            rest = ((last or now) + lockout.window - now).total_seconds()
            raise errors.TooManyWrongPasswords(retry_after=max(1, int(min(rest, _MAX_WINDOW.total_seconds())) + 1))
        attempt = PasswordAttempt.objects.create(account_digest=digest, credential_id=credential_id, at=now)
    PasswordAttempt.objects.filter(at__lt=now - _MAX_WINDOW).delete()
    return attempt


def _require_few_targets(credential_id: str, digest: str) -> None:
    """Raise RateLimited for password spraying: trying all accounts of a domain, each below its own threshold."""
    limits = settings.CONFIGURATION.RateLimiting
    if not limits.Enabled:
        return
    limit, now = limits.WrongPasswordTargets, timezone.now()
    given = PasswordAttempt.objects.filter(
        credential_id=credential_id, at__gt=now - timedelta(seconds=limit.WindowSeconds)
    )
    others = given.exclude(state=State.PAST).exclude(account_digest=digest)
    first_of_each = list(others.values("account_digest").annotate(first=Min("at")).values_list("first", flat=True))
    if len(first_of_each) >= limit.Requests:
        rest = min(first_of_each) + timedelta(seconds=limit.WindowSeconds) - now
        why = message("This credential has given wrong passwords for too many accounts")
        raise RateLimited(retry_after=max(1, int(rest.total_seconds()) + 1), why=why)


def take_back(attempt: PasswordAttempt) -> None:
    """Do not count the attempt: the password was not checked, or was right and refused for another reason."""
    attempt.delete()


def fail(attempt: PasswordAttempt) -> None:
    """Record that the password was wrong."""
    PasswordAttempt.objects.filter(pk=attempt.pk).update(state=State.WRONG)


def succeed(attempt: PasswordAttempt) -> None:
    """Record that the directory accepted the password, which resets its own count of wrong ones, too."""
    attempt.delete()
    same = PasswordAttempt.objects.filter(account_digest=attempt.account_digest, state=State.WRONG)
    same.update(state=State.PAST)


def _lockout_of(client: Client, entry: Entry | None) -> _Lockout:
    policies = PolicyReader(client)
    of_domain = _lockout_by(policies.of_domain())
    if entry is None or RESULTANT_POLICY not in entry:
        client.find(uuid4(), ("objectGUID",))  # take as long as for an account with a policy of its own
        return of_domain
    own = policies.of(entry)
    if own is not None:
        return _lockout_by(own)
    # A policy that cannot be read applies: use the stricter of the domain's values and those of _UNREADABLE_POLICY.
    threshold = min(of_domain.threshold, _UNREADABLE_POLICY.threshold)
    return _Lockout(threshold, max(of_domain.window, _UNREADABLE_POLICY.window))


def _lockout_by(policy: PasswordPolicy | None) -> _Lockout:
    if policy is None:
        return _UNREADABLE_POLICY
    if not policy.lockout_threshold:
        return _NEVER_LOCKS
    return _Lockout(policy.lockout_threshold, policy.lockout_window or _MAX_WINDOW)


def _counted_by_server(entry: Entry | None, lockout: _Lockout) -> tuple[int, datetime | None]:
    """How many wrong passwords in a row the domain controller has counted, and when the last one was."""
    last = filetime_to_datetime(entry.number("badPasswordTime")) if entry else None
    if entry is None or last is None or not lockout.is_server_count_used or datetime.now(UTC) - last >= lockout.window:
        return 0, None
    return entry.number("badPwdCount"), last
