"""Who may try to sign in: after too many failures of a name or from an address, nobody for a while.

The counters are rows of the database, so they hold over all processes and restarts. A row is written before the
password is looked at and taken back when it was right: a hundred attempts at once are counted like a hundred in turn.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network

from django.utils import timezone
from django.utils.crypto import salted_hmac

from keys.models import FailedSignIn

State = FailedSignIn.State

WINDOW = LOCK = timedelta(minutes=15)
OF_A_NAME = 10
OF_AN_ADDRESS = 30
OF_CODES = 5
_KEPT = timedelta(days=1)
"""A directory may count over a longer time than WINDOW and LOCK together."""


def begin(subject: str, address: str | None, *, at_most: int = OF_A_NAME) -> FailedSignIn | None:
    """Count an attempt as failed until it is taken back; None when it must not be made at all.

    `subject` is whose password or code is tried, in any case of letters. Without an address none is counted.
    """
    digest = salted_hmac("keys.sign_in", subject.casefold(), algorithm="sha256").hexdigest()
    attempt = FailedSignIn(subject_digest=digest, address="" if address is None else _counted(address))
    # An attempt that is refused leaves no row: a lock that is knocked at all the time still ends.
    if _is_locked(attempt, at_most):
        return None
    attempt.save()
    if _is_locked(attempt, at_most):  # others at the same time were faster
        take_back(attempt)
        return None
    FailedSignIn.objects.filter(at__lt=attempt.at - _KEPT).delete()
    return attempt


def take_back(attempt: FailedSignIn) -> None:
    """The attempt does not count: the password was right, or could not be looked at."""
    attempt.delete()


def fail(attempt: FailedSignIn) -> None:
    """The password or code was wrong."""
    FailedSignIn.objects.filter(pk=attempt.pk).update(state=State.WRONG)


def _is_locked(attempt: FailedSignIn, at_most: int) -> bool:
    of_the_subject = {"subject_digest": attempt.subject_digest}
    if _is_full(attempt, of_the_subject, at_most):
        return True
    return bool(attempt.address) and _is_full(attempt, {"address": attempt.address}, OF_AN_ADDRESS)


def _is_full(attempt: FailedSignIn, counted: dict[str, str], most: int) -> bool:
    """Whether the last `most` failures before this attempt fell into one window that ended less than LOCK ago."""
    now = timezone.now()
    failures = FailedSignIn.objects.filter(**counted, at__gt=now - WINDOW - LOCK)
    if attempt.pk is not None:
        failures = failures.filter(pk__lt=attempt.pk)
    times: list[datetime] = list(failures.order_by("-at").values_list("at", flat=True)[:most])
    return len(times) == most and times[0] - times[-1] <= WINDOW and now - times[0] < LOCK


def _counted(address: str) -> str:
    """What an address counts as: an IPv6 subscriber holds a whole /64."""
    with suppress(ValueError):
        parsed = ip_address(address.partition("%")[0])
        if parsed.version == 6:
            return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
    return address
