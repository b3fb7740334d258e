"""Devices on which a person has signed in before: wrong passwords that others try do not lock that person out there.

The cookie lets nobody in; it decides only whose failures count. It is signed for one person, and void after a new local
password or once all of the person's sessions were ended.
"""

import hashlib
import secrets
from datetime import timedelta

from django.conf import settings
from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest, HttpResponseBase

from keys.models import Person

COOKIE = "gateway_device"
_LIFE = timedelta(days=90)
_SEAL = TimestampSigner(salt="keys.sign_in.known_devices")
_NEW = "new_device"


def note(request: HttpRequest, person: Person) -> None:
    """The device of a request on which the person has signed in is to be known from now on."""
    setattr(request, _NEW, _SEAL.sign(f"{person.pk}.{secrets.token_urlsafe(16)}.{_mark_of(person)}"))


def set_cookie(request: HttpRequest, response: HttpResponseBase) -> None:
    """Give the device what it is known by, if somebody has just signed in on it."""
    if (value := getattr(request, _NEW, None)) is not None:
        secure = settings.SESSION_COOKIE_SECURE
        response.set_cookie(COOKIE, value, max_age=_LIFE, secure=secure, httponly=True, samesite="Lax")


def find(request: HttpRequest | None, person: Person | None) -> str | None:
    """The identifier of the device, if the person has signed in on it."""
    if request is None or person is None:
        return None
    try:
        owner, device, mark = _SEAL.unsign(request.COOKIES.get(COOKIE, ""), max_age=_LIFE).split(".")
    except (BadSignature, ValueError):
        return None
    return device if (owner, mark) == (str(person.pk), _mark_of(person)) else None


def _mark_of(person: Person) -> str:
    return hashlib.sha256(person.get_session_auth_hash().encode()).hexdigest()[:32]
