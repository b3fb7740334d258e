"""The second factor of a person: codes of an authenticator (TOTP, RFC 6238), and recovery codes that stand in for it.

django-otp's own tables keep the secret in clear, and a code that is being tried is not guarded against another request
with the same one; so only its arithmetic is used here.
"""

import hashlib
import re
import secrets
import time
from base64 import b32decode, b32encode
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django_otp.oath import hotp

from audit import security
from audit.model_changes.recording import recorded
from core.call import Call, PersonRef
from core.errors import Conflict
from core.text.messages import message
from keys.models import Person, RecoveryCode, SecondFactor
from keys.sign_in import login_throttle
from keys.sign_in.credentials import Reason, SignInRefused, client_address, log_refusal, origin_of

ISSUER = "Directory Gateway"
STEP_SECONDS = 30
DIGITS = 6
RECOVERY_CODES = 10
_TOLERANCE = 1
"""Steps that the authenticator's clock may be off (RFC 6238 section 5.2)."""
_SECRET_OCTETS = 20  # as many as the hash has (RFC 4226 section 4)
_RECOVERY_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is taken for another
_RECOVERY_LENGTH = 16  # 79 bits: nobody guesses one from its digest


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What an authenticator has to be given: by its camera the address, by hand the secret (base32)."""

    secret: str
    address: str


def is_on(person: Person) -> bool:
    """Whether a code is asked for when the person signs in."""
    return _confirmed(person) is not None


def is_missing(person: Person) -> bool:
    """Whether a person has to set one up before they may do anything else (`SignIn:RequireSecondFactor`)."""
    return settings.CONFIGURATION.SignIn.RequireSecondFactor and not is_on(person)


def remaining_recovery_codes(person: Person) -> int:
    """How many recovery codes were not used yet."""
    return RecoveryCode.objects.filter(second_factor__person=person).count()


def enrol(person: Person) -> Enrolment:
    """Begin to set an authenticator up, with a new secret; raises Conflict when there is one already."""
    if is_on(person):
        raise Conflict(message("There is a second factor already."))
    secret = b32encode(secrets.token_bytes(_SECRET_OCTETS)).decode()
    # Whoever began before, maybe somebody else at a browser left open, holds a secret that is worth nothing now.
    SecondFactor.objects.update_or_create(person=person, defaults={"secret": secret})
    return _enrolment(person, secret)


def find_enrolment(person: Person) -> Enrolment | None:
    """The authenticator being set up, if any."""
    factor = SecondFactor.objects.filter(person=person, confirmed_at__isnull=True).first()
    return _enrolment(person, factor.secret) if factor else None


def confirm(call: Call, person: Person, code: str) -> list[str]:
    """Turn the second factor on by a first code; its recovery codes, which are not kept.

    Raises SignInRefused for a wrong code, Conflict when none is being set up.
    """
    factor = SecondFactor.objects.filter(person=person, confirmed_at__isnull=True).first()
    if factor is None:
        raise Conflict(message("No second factor is being set up."))
    _try_code(call, factor, code, _is_next_code)
    with recorded(call, operation="people.update") as administration:  # after the code: wrong ones stay counted
        administration.watch_row(person)
        SecondFactor.objects.filter(pk=factor.pk).update(confirmed_at=timezone.now())
        codes = _make_recovery_codes(factor)
    _note(call, "second factor set up", person)
    return codes


def require_code(request: HttpRequest | Call, person: Person, code: str | None) -> None:
    """Ask for a code where there is a second factor, of the authenticator or for recovery; raises SignInRefused."""
    factor = _confirmed(person)
    if factor is not None:
        _try_code(request, factor, code, _is_any_code)


def replace_recovery_codes(call: Call, person: Person, code: str) -> list[str]:
    """New recovery codes; those before are worthless. Raises SignInRefused for a wrong code, Conflict without any."""
    factor = _required(person)
    _try_code(call, factor, code, _is_next_code)
    with recorded(call, operation="people.update") as administration:
        administration.watch_row(person)
        codes = _make_recovery_codes(factor)
    _note(call, "recovery codes replaced", person)
    return codes


def remove(call: Call, person: Person, code: str) -> None:
    """Turn the own second factor off. Raises SignInRefused for a wrong code, Conflict without a second factor."""
    factor = _required(person)
    if settings.CONFIGURATION.SignIn.RequireSecondFactor:
        raise Conflict(
            message("Everybody needs a second factor here. Set up another one instead: an administrator resets it.")
        )
    _try_code(call, factor, code, _is_any_code)
    with recorded(call, operation="people.update") as administration:
        administration.watch_row(person)
        factor.delete()
    _note(call, "second factor removed", person)


def reset(person: Person, *, by: PersonRef) -> bool:
    """Turn somebody else's second factor off, say because their telephone is lost; False when there is none.

    Whoever calls decides that they may. Raises Conflict for one's own, which takes a code.
    """
    if person.pk == by.id:
        raise Conflict(message("Your own second factor is removed on your account's page, with a code."))
    deleted, _ = SecondFactor.objects.filter(person=person).delete()
    if deleted:
        security.noted("second factor reset", person=person.username, by=by.username)
    return bool(deleted)


def _confirmed(person: Person) -> SecondFactor | None:
    return SecondFactor.objects.filter(person=person, confirmed_at__isnull=False).first()


def _required(person: Person) -> SecondFactor:
    factor = _confirmed(person)
    if factor is None:
        raise Conflict(message("There is no second factor."))
    return factor


def _enrolment(person: Person, secret: str) -> Enrolment:
    label = quote(f"{ISSUER}:{person.username}", safe=":")
    parameters = urlencode({"secret": secret, "issuer": ISSUER}, quote_via=quote)
    return Enrolment(secret, f"otpauth://totp/{label}?{parameters}")


def _try_code(
    request: HttpRequest | Call, factor: SecondFactor, code: str | None, accepts: Callable[[SecondFactor, str], bool]
) -> None:
    """Accept a code or raise SignInRefused. Wrong ones are counted: a million codes are soon tried."""
    code = re.sub(r"[\s-]", "", code or "").lower()
    if not code:
        raise _refusal(request, factor, Reason.CODE_MISSING)
    subject = f"second factor of {factor.person_id}"
    attempt = login_throttle.begin(subject, client_address(request), at_most=login_throttle.OF_CODES)
    if attempt is None:
        raise _refusal(request, factor, Reason.CODES_TOO_OFTEN)
    if not accepts(factor, code):
        login_throttle.fail(attempt)
        raise _refusal(request, factor, Reason.CODE_WRONG)
    login_throttle.take_back(attempt)


def _refusal(request: HttpRequest | Call, factor: SecondFactor, reason: Reason) -> SignInRefused:
    refusal = SignInRefused(reason, person=factor.person.username)
    log_refusal(request, refusal)
    return refusal


def _is_next_code(factor: SecondFactor, code: str) -> bool:
    """Whether it is the authenticator's code of about now. The condition of the UPDATE lets it be used once only."""
    if not re.fullmatch(f"[0-9]{{{DIGITS}}}", code):
        return False
    key, now = b32decode(factor.secret), int(time.time()) // STEP_SECONDS
    for step in range(now - _TOLERANCE, now + _TOLERANCE + 1):
        if constant_time_compare(f"{hotp(key, step, DIGITS):0{DIGITS}}", code):
            unused = SecondFactor.objects.filter(pk=factor.pk, last_step__lt=step)
            return unused.update(last_step=step) == 1
    return False


def _is_any_code(factor: SecondFactor, code: str) -> bool:
    if len(code) != _RECOVERY_LENGTH:
        return _is_next_code(factor, code)
    # Of two requests with the same code one finds it gone.
    used, _ = RecoveryCode.objects.filter(second_factor=factor, digest=_digest(code)).delete()
    if used:
        left = RecoveryCode.objects.filter(second_factor=factor).count()
        security.noted("recovery code used", person=factor.person.username, left=left)
    return used == 1


def _make_recovery_codes(factor: SecondFactor) -> list[str]:
    codes = ["".join(secrets.choice(_RECOVERY_LETTERS) for _ in range(_RECOVERY_LENGTH)) for _ in range(RECOVERY_CODES)]
    with transaction.atomic():
        factor.recovery_codes.all().delete()
        RecoveryCode.objects.bulk_create(RecoveryCode(second_factor=factor, digest=_digest(code)) for code in codes)
    return ["-".join(re.findall("....", code)) for code in codes]


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _note(call: Call, event: str, person: Person) -> None:
    security.noted(event, person=person.username, **origin_of(call))
