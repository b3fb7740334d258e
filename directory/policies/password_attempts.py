"""Trying an account's password without locking the account.

Every route by which a password of an account of the domain is tried begins an attempt here first: sign-in, a change of
a password with the present one, a test of a connection, and a connection's own password as long as it is not known to
be right (`directory.queries.bind_attempts`), on every surface and host. An attempt is counted in the database before
the directory is asked, and what the domain controller has counted elsewhere counts too, so the threshold is never
reached.
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
from core.errors import RateLimited
from core.text.messages import message
from core.versions import lock_record
from directory import errors
from directory.models import PasswordAttempt
from directory.policies.password_policy import RESULTANT_POLICY, PasswordPolicy, PolicyReader

State = PasswordAttempt.State

_SPARED = 2
"""How many of the failures that the policy allows are left for the person's other devices."""
_LONGEST = timedelta(days=30)
_ATTRIBUTES = (RESULTANT_POLICY, "badPwdCount", "badPasswordTime")


@dataclass(frozen=True, slots=True)
class _Lockout:
    """After how many wrong passwords, each within `window` of the one before, an account is locked.

    `is_counted_there`: whether those that the domain controller has counted matter.
    """

    threshold: int
    window: timedelta
    is_counted_there: bool = True

    def allowed(self, *, may_take_last: bool) -> int:
        """How many may be wrong. One below the threshold at most: of a threshold of 1 none may be tried at all."""
        return max(min(1, self.threshold - 1), self.threshold - (1 if may_take_last else _SPARED))


_NEVER_LOCKS = _Lockout(22, timedelta(minutes=15), is_counted_there=False)
_UNREADABLE = _Lockout(3, timedelta(hours=1))
_UNKNOWN = _Lockout(3, timedelta(minutes=30), is_counted_there=False)


def tries_password(write: Write) -> bool:
    """Whether a write tries an account's present password: a change deletes it, a reset replaces it unseen."""
    return isinstance(write, Modify) and any(
        step.op == "delete" and step.attribute.lower() == "unicodepwd" and step.values for step in write.modifications
    )


def require_left(client: Client, account: UUID) -> None:
    """Raise TooManyWrongPasswords where no attempt may be made now."""
    take_back(begin(client, account))


def begin(
    client: Client,
    account: UUID | None,
    *,
    name: str = "",
    credential_id: str = "",
    may_take_last: bool = False,
) -> PasswordAttempt:
    """Count an attempt on an account until it is known how it ended; raises TooManyWrongPasswords, or LDAP's errors.

    A `name` that no account has is counted by the domain's policy, and the directory is asked the same for it: neither
    the time nor the answer tells which names exist. Raises RateLimited for a credential that has given wrong
    passwords for too many other accounts. The last attempt below the threshold is for those who `may_take_last`.
    """
    digest = _digest_of(str(account) if account is not None else name)
    # Those that end while the directory is asked are counted twice at worst, never not at all.
    ended = _ended(digest)
    entry = client.find(account or uuid4(), _ATTRIBUTES)
    lockout = _lockout_of(client, entry)
    counted = _counted_there(entry, lockout)
    return _count(digest, lockout, ended, *counted, credential_id=credential_id, may_take_last=may_take_last)


def begin_unknown(subject: str, *, credential_id: str = "", may_take_last: bool = False) -> PasswordAttempt:
    """The same of an account that no directory can be asked about: as if the third wrong password locked it."""
    digest = _digest_of(subject)
    return _count(digest, _UNKNOWN, _ended(digest), 0, None, credential_id=credential_id, may_take_last=may_take_last)


def note_wrong(subject: str) -> None:
    """Count a wrong password that nobody had counted before it was tried, for it was known to be right."""
    PasswordAttempt.objects.create(account_digest=_digest_of(subject), state=State.WRONG)


def _digest_of(subject: str) -> str:
    return salted_hmac("directory.password_attempts", subject.casefold(), algorithm="sha256").hexdigest()


def _ended(digest: str) -> set[int]:
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
    # Inside of another transaction the locks would be held until that ends, while others wait to sign in.
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
            if previous - at >= lockout.window:
                break
            previous = at
            last = max(last, at) if last else at
            if pk in ended and state == State.WRONG:
                known += 1
            else:
                since += 1
        if max(known, counted) + since >= lockout.allowed(may_take_last=may_take_last):
            rest = ((last or now) + lockout.window - now).total_seconds()
            raise errors.TooManyWrongPasswords(retry_after=max(1, int(min(rest, _LONGEST.total_seconds())) + 1))
        attempt = PasswordAttempt.objects.create(account_digest=digest, credential_id=credential_id, at=now)
    PasswordAttempt.objects.filter(at__lt=now - _LONGEST).delete()
    return attempt


def _require_few_targets(credential_id: str, digest: str) -> None:
    """Below the threshold of each, the accounts of a whole domain could be tried with one password after another."""
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
    """The attempt does not count: the password was not looked at, or right and refused for another reason."""
    attempt.delete()


def fail(attempt: PasswordAttempt) -> None:
    """The password was wrong."""
    PasswordAttempt.objects.filter(pk=attempt.pk).update(state=State.WRONG)


def succeed(attempt: PasswordAttempt) -> None:
    """The directory accepted the password, and so counts the wrong ones anew from here."""
    attempt.delete()
    same = PasswordAttempt.objects.filter(account_digest=attempt.account_digest, state=State.WRONG)
    same.update(state=State.PAST)


def _lockout_of(client: Client, entry: Entry | None) -> _Lockout:
    policies = PolicyReader(client)
    of_domain = _by(policies.of_domain())
    if entry is None or RESULTANT_POLICY not in entry:
        client.find(uuid4(), ("objectGUID",))  # as long as for an account with a policy of its own
        return of_domain
    own = policies.of(entry)
    if own is not None:
        return _by(own)
    # The domain's is not the one in force: the stricter of it and of what is assumed counts.
    threshold = min(of_domain.threshold, _UNREADABLE.threshold)
    return _Lockout(threshold, max(of_domain.window, _UNREADABLE.window))


def _by(policy: PasswordPolicy | None) -> _Lockout:
    if policy is None:
        return _UNREADABLE
    if not policy.lockout_threshold:
        return _NEVER_LOCKS
    return _Lockout(policy.lockout_threshold, policy.lockout_window or _LONGEST)


def _counted_there(entry: Entry | None, lockout: _Lockout) -> tuple[int, datetime | None]:
    """The wrong passwords in a row that the domain controller knows of, and when the last one was."""
    last = filetime_to_datetime(entry.number("badPasswordTime")) if entry else None
    if entry is None or last is None or not lockout.is_counted_there or datetime.now(UTC) - last >= lockout.window:
        return 0, None
    return entry.number("badPwdCount"), last
