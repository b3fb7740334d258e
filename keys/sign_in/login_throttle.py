"""Throttles sign-ins: too many failures for a name or from an address lock it for a while.

The counters are rows of the database, which all processes share and which survive restarts. A row is written before the
password is checked and deleted if it was right, so that a hundred simultaneous attempts count like a hundred in turn.

Wrong passwords that others try do not lock a person out on a device on which they have signed in before. The device's
cookie lets nobody in; it only decides whose failures count. It is signed for one person, and void after a new local
password or once all of the person's sessions were ended.
"""

import hashlib
import secrets
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone
from django.utils.crypto import salted_hmac

from keys.models import FailedSignIn, Person

State = FailedSignIn.State

WINDOW = LOCK = timedelta(minutes=15)
MAX_FAILURES_OF_NAME = 10
MAX_FAILURES_OF_ADDRESS = 30
MAX_WRONG_CODES = 5
_KEPT = timedelta(days=1)
"""Longer than WINDOW and LOCK, since a directory may count over a longer time."""

COOKIE = "gateway_device"
_COOKIE_LIFETIME = timedelta(days=90)
_SIGNER = TimestampSigner(salt="keys.sign_in.known_devices")
_NEW_DEVICE = "new_device"
"""The attribute of a request that has the cookie's value until the response sets it."""


def begin(subject: str, address: str | None, *, at_most: int = MAX_FAILURES_OF_NAME) -> FailedSignIn | None:
    """Count an attempt as failed until it is taken back; None if it must not be made.

    `subject` names whose password or code is tried, in any case of letters. Without an `address` only it is counted.
    """
    digest = salted_hmac("keys.sign_in", subject.casefold(), algorithm="sha256").hexdigest()
    attempt = FailedSignIn(subject_digest=digest, address="" if address is None else _counted_as(address))
    # A refused attempt leaves no row, so that a lock ends even if somebody keeps trying.
    if _is_locked(attempt, at_most):
        return None
    attempt.save()
    if _is_locked(attempt, at_most):  # simultaneous attempts were faster
        take_back(attempt)
        return None
    FailedSignIn.objects.filter(at__lt=attempt.at - _KEPT).delete()
    return attempt


def take_back(attempt: FailedSignIn) -> None:
    """Do not count the attempt: the password was right, or could not be checked."""
    attempt.delete()


def fail(attempt: FailedSignIn) -> None:
    """Count the attempt: the password or code was wrong."""
    FailedSignIn.objects.filter(pk=attempt.pk).update(state=State.WRONG)


def _is_locked(attempt: FailedSignIn, at_most: int) -> bool:
    of_the_subject = {"subject_digest": attempt.subject_digest}
    if _is_full(attempt, of_the_subject, at_most):
        return True
    return bool(attempt.address) and _is_full(attempt, {"address": attempt.address}, MAX_FAILURES_OF_ADDRESS)


def _is_full(attempt: FailedSignIn, counted: dict[str, str], most: int) -> bool:
    """Whether the last `most` failures before this attempt fell into one window that ended less than LOCK ago."""
    now = timezone.now()
    failures = FailedSignIn.objects.filter(**counted, at__gt=now - WINDOW - LOCK)
    if attempt.pk is not None:
        failures = failures.filter(pk__lt=attempt.pk)
    times: list[datetime] = list(failures.order_by("-at").values_list("at", flat=True)[:most])
    return len(times) == most and times[0] - times[-1] <= WINDOW and now - times[0] < LOCK


def _counted_as(address: str) -> str:
    """The address or network that an address counts as: an IPv6 subscriber usually holds a whole /64 (RFC 6177)."""
    with suppress(ValueError):
        parsed = ip_address(address.partition("%")[0])
        if parsed.version == 6:
            return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
    return address


def remember_device(request: HttpRequest, person: Person) -> None:
    """Remember the device of a request on which the person has signed in."""
    setattr(request, _NEW_DEVICE, _SIGNER.sign(f"{person.pk}.{secrets.token_urlsafe(16)}.{_session_mark_of(person)}"))


def set_device_cookie(request: HttpRequest, response: HttpResponseBase) -> None:
    """Set the cookie of a device that has just been remembered."""
    if (value := getattr(request, _NEW_DEVICE, None)) is not None:
        secure = settings.SESSION_COOKIE_SECURE
        response.set_cookie(COOKIE, value, max_age=_COOKIE_LIFETIME, secure=secure, httponly=True, samesite="Lax")


def find_device(request: HttpRequest | None, person: Person | None) -> str | None:
    """The id of the request's device, if the person has signed in on it before."""
    if request is None or person is None:
        return None
    try:
        owner, device, mark = _SIGNER.unsign(request.COOKIES.get(COOKIE, ""), max_age=_COOKIE_LIFETIME).split(".")
    except (BadSignature, ValueError):
        return None
    return device if (owner, mark) == (str(person.pk), _session_mark_of(person)) else None


def _session_mark_of(person: Person) -> str:
    return hashlib.sha256(person.get_session_auth_hash().encode()).hexdigest()[:32]
