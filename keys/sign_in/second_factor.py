"""The second factor of a person: codes of an authenticator (TOTP, RFC 6238), passkeys, and recovery codes.

`passkeys` has what concerns these alone. The second factor is asked for at the sign-in, and again for actions that must
not be possible at a browser left open. Only the arithmetic of django-otp is used: its tables store the secret in clear,
and two simultaneous requests could both use the same code.
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
from keys.callers import client_address, origin_of
from keys.models import Person, RecoveryCode, SecondFactor
from keys.people import notices
from keys.sign_in import login_throttle
from keys.sign_in.credentials import Reason, SignInRefused, log_refusal

ISSUER = "Directory Gateway"
STEP_SECONDS = 30
DIGITS = 6
RECOVERY_CODES = 10
_TOLERANCE = 1
"""Steps by which the authenticator's clock may be off (RFC 6238 section 5.2)."""
_SECRET_OCTETS = 20  # as many as the hash has (RFC 4226 section 4)
_RECOVERY_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # no letters that people confuse
_RECOVERY_LENGTH = 16  # 79 bits: nobody guesses one from its digest


@dataclass(frozen=True, slots=True)
class Enrolment:
    """What an authenticator needs: the URI in the QR code, or the secret (base32) to be typed."""

    secret: str
    address: str


def is_on(person: Person) -> bool:
    """Whether the person has a confirmed second factor, and so needs a code to sign in."""
    return _confirmed(person) is not None


def has_authenticator(person: Person) -> bool:
    """Whether codes of an authenticator are a part of the person's second factor."""
    factor = _confirmed(person)
    return factor is not None and factor.has_authenticator


def is_missing(person: Person) -> bool:
    """Whether the person lacks a second factor that `SignIn:RequireSecondFactor` requires."""
    return settings.CONFIGURATION.SignIn.RequireSecondFactor and not is_on(person)


def remaining_recovery_codes(person: Person) -> int:
    """How many unused recovery codes the person has."""
    return RecoveryCode.objects.filter(second_factor__person=person).count()


def enrol(person: Person) -> Enrolment:
    """Begin to set up an authenticator with a new secret; raises Conflict if there is a second factor already."""
    if is_on(person):
        raise Conflict(message("There is a second factor already."))
    secret = _make_secret()
    # A new secret each time: somebody else may have seen an earlier one at a browser left open.
    SecondFactor.objects.update_or_create(person=person, defaults={"secret": secret})
    return _enrolment(person, secret)


def find_enrolment(person: Person) -> Enrolment | None:
    """The authenticator being set up, if any."""
    factor = SecondFactor.objects.filter(person=person, confirmed_at__isnull=True).first()
    return _enrolment(person, factor.secret) if factor else None


def confirm(call: Call, person: Person, code: str) -> list[str]:
    """Turn the second factor on with a first code; return its recovery codes, which are not stored.

    Raises SignInRefused for a wrong code, Conflict if no second factor is being set up.
    """
    factor = SecondFactor.objects.filter(person=person, confirmed_at__isnull=True).first()
    if factor is None:
        raise Conflict(message("No second factor is being set up."))
    _try_code(call, factor, code, _is_next_code)
    with recorded(call, person, operation="people.update"):  # not around the code: a rollback would undo the count
        SecondFactor.objects.filter(pk=factor.pk).update(confirmed_at=timezone.now())
        codes = _make_recovery_codes(factor)
    _note(call, "second factor set up", person)
    return codes


def require_code(request: HttpRequest | Call, person: Person, code: str | None) -> None:
    """Require a code of the authenticator or a recovery code if there is a second factor; raises SignInRefused."""
    factor = _confirmed(person)
    if factor is not None:
        _try_code(request, factor, code, _is_any_code)


def accept_passkeys(person: Person) -> tuple[SecondFactor, list[str]]:
    """The second factor that a new passkey belongs to. If there was none, it is made, with recovery codes."""
    factor = _confirmed(person)
    if factor is not None:
        return factor, []
    # Processes of the last release ask for a code of this secret, which nobody has.
    made = {"secret": _make_secret(), "has_authenticator": False, "confirmed_at": timezone.now()}
    factor, _ = SecondFactor.objects.update_or_create(person=person, defaults=made)
    return factor, _make_recovery_codes(factor)


def require_next_code(call: Call, person: Person, code: str) -> None:
    """Require a code of the authenticator itself. Raises SignInRefused, Conflict without a second factor."""
    _try_code(call, _required(person), code, _is_next_code)


def replace_recovery_codes(call: Call, person: Person) -> list[str]:
    """Replace the recovery codes of a person who has just proved their second factor; raises Conflict without one."""
    factor = _required(person)
    with recorded(call, person, operation="people.update"):
        codes = _make_recovery_codes(factor)
    _note(call, "recovery codes replaced", person)
    return codes


def remove(call: Call, person: Person, code: str) -> None:
    """Take the caller's own authenticator away. Without passkeys, their second factor is off.

    Raises SignInRefused for a wrong code, Conflict without a second factor or if it would be off where everybody needs
    one.
    """
    factor = _required(person)
    if not factor.passkeys.exists():
        require_not_needed()
    _try_code(call, factor, code, _is_any_code)
    with recorded(call, person, operation="people.update"):
        if factor.passkeys.exists():
            SecondFactor.objects.filter(pk=factor.pk).update(secret=_make_secret(), has_authenticator=False)
        else:
            factor.delete()
    _note(call, "second factor removed", person)


def require_not_needed() -> None:
    """Raise Conflict where nobody may turn their second factor off."""
    if settings.CONFIGURATION.SignIn.RequireSecondFactor:
        raise Conflict(
            message("Everybody needs a second factor here. Set up another one instead: an administrator resets it.")
        )


def reset(person: Person, *, by: PersonRef) -> bool:
    """Turn somebody else's second factor off, say because they lost their phone; False if they have none.

    The caller has checked that this is allowed. Raises Conflict for one's own second factor, which takes a code.
    """
    if person.pk == by.id:
        raise Conflict(message("Your own second factor is removed on your account's page, with a code."))
    deleted, _ = SecondFactor.objects.filter(person=person).delete()
    if deleted:
        security.log_event("second factor reset", person=person.username, by=by.username)
        notices.tell(person, "second factor reset")
    return bool(deleted)


def _confirmed(person: Person) -> SecondFactor | None:
    return SecondFactor.objects.filter(person=person, confirmed_at__isnull=False).first()


def _required(person: Person) -> SecondFactor:
    factor = _confirmed(person)
    if factor is None:
        raise Conflict(message("There is no second factor."))
    return factor


def _make_secret() -> str:
    return b32encode(secrets.token_bytes(_SECRET_OCTETS)).decode()


def _enrolment(person: Person, secret: str) -> Enrolment:
    label = quote(f"{ISSUER}:{person.username}", safe=":")
    parameters = urlencode({"secret": secret, "issuer": ISSUER}, quote_via=quote)
    return Enrolment(secret, f"otpauth://totp/{label}?{parameters}")


def _try_code(
    request: HttpRequest | Call, factor: SecondFactor, code: str | None, accepts: Callable[[SecondFactor, str], bool]
) -> None:
    """Accept a code or raise SignInRefused. Wrong codes are counted, since a million of them are soon tried."""
    code = re.sub(r"[\s-]", "", code or "").lower()
    if not code:
        raise _refusal(request, factor, Reason.CODE_MISSING)
    subject = f"second factor of {factor.person_id}"
    attempt = login_throttle.begin(subject, client_address(request), at_most=login_throttle.MAX_WRONG_CODES)
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
    """Whether it is the authenticator's present code. The condition of the UPDATE makes it work only once."""
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
    # Of two simultaneous requests with the same code, one finds it deleted.
    used, _ = RecoveryCode.objects.filter(second_factor=factor, digest=_digest(code)).delete()
    if used:
        left = RecoveryCode.objects.filter(second_factor=factor).count()
        security.log_event("recovery code used", person=factor.person.username, left=left)
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
    security.log_event(event, person=person.username, **origin_of(call))


WRONG_CODES = {
    Reason.CODE_MISSING: message("Type the code that your authenticator shows."),
    Reason.CODE_WRONG: message("This code is wrong, or was used already. Wait for the next one and try again."),
    Reason.CODES_TOO_OFTEN: message("There were too many wrong codes. Try again in a quarter of an hour."),
}
