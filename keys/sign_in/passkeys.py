"""Passkeys (WebAuthn): a second factor for everybody, and the whole sign-in of local accounts.

The authenticator always verifies its person. No challenge is stored: each bears the time when it was made and a MAC
over its session and its purpose, and a passkey answers only challenges that are younger than the last one it answered.
"""

import json
import secrets
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import webauthn
from django.conf import settings
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from webauthn.helpers import (
    bytes_to_base64url,
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from audit import security
from audit.model_changes.recording import recorded
from core.call import Call
from core.database import shared_clock
from core.errors import Conflict, InvalidRequest, NotFound
from core.text.messages import message
from core.text.names import require_label
from keys.callers import origin_of
from keys.models import Passkey, Person
from keys.people import notices
from keys.sign_in import second_factor
from keys.sign_in.credentials import Reason, SignInRefused, log_refusal

MAX_PASSKEYS = 20
MAX_ANSWER = 8192
"""Characters of an answer of the browser; the longest keys and attestations need half as many."""
LIFETIME = timedelta(minutes=10)

SIGN_IN = "sign in"
SECOND_STEP = "second step of the sign-in"
ACCOUNT = "changes of how one signs in"
_ADDING = "a new passkey"

_NONCE = 16
_TIME = 8
_MICROSECONDS = 1_000_000
_VERIFIED = UserVerificationRequirement.REQUIRED


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """What passkeys are bound to: a domain, and the origin of the console."""

    domain: str
    origin: str


def find_relying_party() -> RelyingParty | None:
    """That of `Approvals:BaseUrl`, whatever a request says. None if its pages may not use passkeys.

    Browsers require TLS, except for localhost, and a name in place of an IP address.
    """
    parts = urlsplit(settings.CONFIGURATION.Approvals.BaseUrl.lower())
    domain = parts.hostname or ""
    if not domain or (parts.scheme != "https" and domain != "localhost"):
        return None
    port = "" if parts.port in (None, {"https": 443, "http": 80}[parts.scheme]) else f":{parts.port}"
    try:
        ip_address(domain)
    except ValueError:
        return RelyingParty(domain, f"{parts.scheme}://{domain}{port}")
    return None


def passkeys_of(person: Person) -> QuerySet[Passkey]:
    """The person's passkeys, the oldest first."""
    return Passkey.objects.filter(second_factor__person=person)


def find(person: Person, id: UUID) -> Passkey:
    """One of the person's passkeys; raises NotFound."""
    passkey = passkeys_of(person).select_related("second_factor").filter(pk=id).first()
    if passkey is None:
        raise NotFound
    return passkey


def can_be_used(person: Person) -> bool:
    """Whether the person has a passkey that this configuration lets them use."""
    return find_relying_party() is not None and passkeys_of(person).exists()


def options(purpose: str, session: str, person: Person | None = None) -> str:
    """What a browser needs to ask for a passkey of the person, or of anybody, as JSON.

    `session` is an id that only this browser's requests have.
    """
    known = [] if person is None else _descriptors(person)
    asked = webauthn.generate_authentication_options(
        rp_id=_relying_party().domain,
        challenge=_make_challenge(purpose, session),
        allow_credentials=known,
        user_verification=_VERIFIED,
    )
    return webauthn.options_to_json(asked)


def verify(
    request: HttpRequest | Call, answer: str, *, purpose: str, session: str, person: Person | None = None
) -> Passkey:
    """Verify the browser's answer to `options` of the same arguments, and use up its challenge.

    Without a `person` the passkey has to say whose it is. Raises SignInRefused.
    """
    facts = {} if person is None else {"person": person.username}
    found = Passkey.objects.all() if person is None else passkeys_of(person)
    try:
        passkey = _verify(answer, purpose, session, found.select_related("second_factor__person"), named=person is None)
    except Exception as error:
        refusal = SignInRefused(Reason.PASSKEY, **facts, problem=f"{type(error).__name__}: {error}"[:200])
        log_refusal(request, refusal)
        raise refusal from error
    owner = passkey.second_factor.person.username
    security.log_event("passkey used", person=owner, passkey=str(passkey.id), purpose=purpose, **origin_of(request))
    return passkey


def _verify(answer: str, purpose: str, session: str, among: QuerySet[Passkey], *, named: bool) -> Passkey:
    if len(answer) > MAX_ANSWER:
        raise ValueError("too long")
    credential, party = parse_authentication_credential_json(answer), _relying_party()
    challenge = parse_client_data_json(credential.response.client_data_json).challenge
    made = _require_own_challenge(challenge, purpose, session)
    passkey = among.get(credential_id=bytes_to_base64url(credential.raw_id))
    if named and credential.response.user_handle != passkey.second_factor.person.public_id.bytes:
        raise ValueError("not of the person whom it names")
    verified = webauthn.verify_authentication_response(
        credential=credential,
        expected_challenge=challenge,
        expected_rp_id=party.domain,
        expected_origin=party.origin,
        credential_public_key=bytes(passkey.public_key),
        credential_current_sign_count=0,  # compared below, by the UPDATE: two answers may come at once
        require_user_verification=True,
    )
    count = verified.new_sign_count
    has_grown = Q(sign_count__lt=count) if count else Q(sign_count=0)
    unused = Passkey.objects.filter(has_grown, pk=passkey.pk, last_challenge__lt=made)
    if not unused.update(last_challenge=made, sign_count=count, last_used_at=timezone.now()):
        raise ValueError("challenge answered before, or the count of a copied passkey")
    return passkey


def begin(person: Person, session: str) -> str:
    """What a browser needs to make a passkey, as JSON. The person has just proved who they are.

    Raises Conflict if there are too many, or the configuration does not allow any.
    """
    known = _descriptors(person)
    if len(known) >= MAX_PASSKEYS:
        raise Conflict(message("Nobody can have more than {most} passkeys.", most=MAX_PASSKEYS))
    made = webauthn.generate_registration_options(
        rp_id=_relying_party().domain,
        rp_name=second_factor.ISSUER,
        user_id=person.public_id.bytes,
        user_name=person.username,
        user_display_name=person.get_full_name(),
        challenge=_make_challenge(_ADDING, session),
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=_VERIFIED
        ),
        exclude_credentials=known,
    )
    return webauthn.options_to_json(made)


def add(call: Call, person: Person, answer: str, name: str) -> list[str]:
    """Add the passkey that a browser has made; return the recovery codes if it is the first second factor.

    Raises InvalidRequest for a name that cannot be shown or an answer that is not one to `begin` of this session.
    """
    name = _checked_name(name)
    party = _relying_party()
    try:
        if len(answer) > MAX_ANSWER:
            raise ValueError("too long")
        credential = parse_registration_credential_json(answer)
        challenge = parse_client_data_json(credential.response.client_data_json).challenge
        made = _require_own_challenge(challenge, _ADDING, call.credential.id)
        verified = webauthn.verify_registration_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=party.domain,
            expected_origin=party.origin,
            require_user_verification=True,
        )
    except Exception as error:
        log_refusal(call, SignInRefused(Reason.PASSKEY, person=person.username, problem=f"{error}"[:200]))
        raise InvalidRequest(message("The passkey could not be added. Try again.")) from error
    credential_id = bytes_to_base64url(verified.credential_id)
    if Passkey.objects.filter(credential_id=credential_id).exists():
        raise Conflict(message("This passkey is known already."))
    with recorded(call, person, operation="people.update"):
        factor, codes = second_factor.accept_passkeys(person)
        factor.passkeys.create(
            credential_id=credential_id,
            public_key=verified.credential_public_key,
            sign_count=verified.sign_count,
            last_challenge=made,
            name=name,
        )
    security.log_event("passkey added", person=person.username, passkey=name, **origin_of(call))
    notices.tell(person, "passkey added")
    return codes


def rename(call: Call, person: Person, id: UUID, name: str) -> None:
    """Give one of the person's passkeys another name; raises NotFound, InvalidRequest."""
    passkey = find(person, id)
    with recorded(call, person, operation="people.update"):
        passkey.name = _checked_name(name)
        passkey.save(update_fields=["name"])


def remove(call: Call, person: Person, id: UUID) -> None:
    """Remove one of the person's passkeys; they have just proved who they are. Sessions it began decide no more.

    With the last one and no authenticator, the second factor is off. Raises NotFound, Conflict where it must not be.
    """
    passkey = find(person, id)
    factor = passkey.second_factor
    is_last = not factor.has_authenticator and not factor.passkeys.exclude(pk=passkey.pk).exists()
    if is_last:
        second_factor.require_not_needed()
    with recorded(call, person, operation="people.update"):
        (factor if is_last else passkey).delete()
    security.log_event("passkey removed", person=person.username, passkey=passkey.name, **origin_of(call))
    notices.tell(person, "passkey removed")


def began_session(session: Any, person: Person) -> bool:
    """Whether a session began with a passkey that its person still has. Not looked up where nothing depends on it."""
    id = session.get(SESSION_PASSKEY)
    if id is None or settings.CONFIGURATION.SignIn.ApproversNeed != "passkey":
        return False
    return passkeys_of(person).filter(pk=id).exists()


SESSION_PASSKEY = "passkey"
"""Session key: the id of the passkey that the session began with."""


def _checked_name(name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= 64:
        raise InvalidRequest.naming(message("must have 1 to {longest} characters", longest=64), pointer="#/name")
    try:
        return require_label(name)
    except ValueError as complaint:
        raise InvalidRequest.naming(str(complaint), pointer="#/name") from None


def _relying_party() -> RelyingParty:
    found = find_relying_party()
    if found is None:
        raise Conflict(message("Passkeys need an address of the console with https and a name (`Approvals:BaseUrl`)."))
    return found


def _descriptors(person: Person) -> list[PublicKeyCredentialDescriptor]:
    ids = passkeys_of(person).values_list("credential_id", flat=True)
    return [PublicKeyCredentialDescriptor(id=webauthn.base64url_to_bytes(id)) for id in ids]


def _make_challenge(purpose: str, session: str) -> bytes:
    made = int(shared_clock.now().timestamp() * _MICROSECONDS)
    start = secrets.token_bytes(_NONCE) + made.to_bytes(_TIME)
    return start + _mac(start, purpose, session)


def _require_own_challenge(challenge: bytes, purpose: str, session: str) -> int:
    """When the challenge was made, in microseconds; raises ValueError for one that was not, or is too old."""
    start, mac = challenge[: _NONCE + _TIME], challenge[_NONCE + _TIME :]
    if not session or not constant_time_compare(mac, _mac(start, purpose, session)):
        raise ValueError("challenge of another session or for another purpose")
    made = int.from_bytes(start[_NONCE:])
    if shared_clock.now().timestamp() * _MICROSECONDS - made > LIFETIME.total_seconds() * _MICROSECONDS:
        raise ValueError("challenge too old")
    return made


def _mac(start: bytes, purpose: str, session: str) -> bytes:
    content = json.dumps([start.hex(), purpose, session])
    return salted_hmac("keys.sign_in.passkeys", content, algorithm="sha256").digest()
