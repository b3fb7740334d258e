"""Links by which people of the gateway set their own password or passkey: nobody has to choose one for somebody else.

A link is good once, for 72 hours (`PASSWORD_RESET_TIMEOUT`), and only for somebody who has no password: making one
takes theirs away. Nothing of it is stored, not even a digest: its code is a MAC over what ends it when it changes. That
is the random mark of an unusable password, which a new link and the use of one replace, the e-mail address, the last
sign-in, and the epoch of sessions, which grows when the person is deactivated.

The code also names the inviter, who must still be somebody who may invite the person: otherwise they could keep a link
until its person has more rights than they. It stands behind the # of the address, which browsers send to nobody.
"""

import hashlib
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import structlog
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.http import HttpRequest

from audit import security
from audit.model_changes.recording import recorded
from core.call import Call, CredentialKind, CredentialRef, PersonRef, Surface
from core.database import shared_clock
from core.errors import Conflict
from core.mail import make_email
from core.redis.broker import BrokerUnavailable, send_task
from core.text.messages import message
from keys.callers import client_address, origin_of
from keys.models import Passkey, Person
from keys.people.account_status import revoke_tokens
from keys.people.local_accounts import set_password
from keys.permissions.effective import access_of_person, granted_permissions, reference_to
from keys.sign_in import login_throttle, passkeys
from keys.sign_in.credentials import Reason, SignInRefused, log_refusal, may_use_password

MAIL_TASK: Final = "gateway.tasks.mail_invitation"
_ID: Final = 32
"""Characters of an identifier in a code."""

_logger = structlog.stdlib.get_logger(__name__)


class _Codes(PasswordResetTokenGenerator):
    def __init__(self, inviter: UUID) -> None:
        super().__init__()
        self.key_salt = f"keys.sign_in.invitations.{inviter}"

    def _now(self) -> datetime:
        return shared_clock.now().replace(tzinfo=None)

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.session_epoch}"


def invite(by: PersonRef, person: Person) -> str | None:
    """End what the person signs in with, and mail them a link; return it if it cannot be mailed, to be shown once.

    Joins the caller's transaction. Raises Conflict for somebody whom no link can help.
    """
    if not person.is_local or not person.is_active:
        raise Conflict(message("Only people with an active local account can be invited."))
    if person.pk == by.id:
        raise Conflict(message("Your own password is changed on the page of your account."))
    person.set_unusable_password()
    person.save(update_fields=["password"])  # sessions end by themselves, since Django hashes the password into them
    revoke_tokens(person_id=person.pk)
    inviter = Person.objects.get(pk=by.id).public_id
    token = _Codes(inviter).make_token(person)
    if not _is_mailed(person):
        return _link(person, inviter, token)
    moment, digest = token.partition("-")[0], hashlib.sha256(token.encode()).hexdigest()
    transaction.on_commit(partial(_enqueue, person.pk, inviter.hex, moment, digest))
    return None


def _is_mailed(person: Person) -> bool:
    has_server = "console" not in settings.EMAIL_BACKEND
    return bool(person.email and has_server and settings.CONFIGURATION.Approvals.BaseUrl)


def _link(person: Person, inviter: UUID, token: str) -> str:
    base = settings.CONFIGURATION.Approvals.BaseUrl.rstrip("/")
    return f"{base}/console/invitation#{person.public_id.hex}{inviter.hex}{token}"


def _enqueue(*arguments: Any) -> None:
    try:
        send_task(MAIL_TASK, *map(str, arguments), ignore_result=True)
    except BrokerUnavailable:
        _logger.exception("an invitation was not sent", person=arguments[0])


def mail(person_id: int, inviter: UUID, moment: str, digest: str) -> None:
    """Mail the link if it is still good. The broker is told only its digest: the code is made again here."""
    person = Person.objects.filter(pk=person_id).first()
    if person is None or not person.email:
        return
    codes = _Codes(inviter)
    token = codes._make_token_with_timestamp(person, int(moment, 36), codes.secret)
    if hashlib.sha256(token.encode()).hexdigest() != digest:
        return
    lines = [
        f"Your account {person.username} waits for you. Set a password or a passkey of your own here:",
        _link(person, inviter, token),
        "The link is good once, and for 72 hours. Do not pass it on. Earlier links are no longer good.",
    ]
    make_email(person.email, subject="Your account", body="\n\n".join(lines), about="account").send()


def find_invited(request: HttpRequest, code: str) -> Person:
    """Whom a code invites; raises SignInRefused, which says no more, for one that is wrong, used, ended or too old."""
    address = client_address(request)
    attempt = login_throttle.begin(f"invitation\0{address}", address)
    person = _find(code) if attempt is not None else None
    if attempt is not None and person is not None:
        login_throttle.take_back(attempt)
        return person
    if attempt is not None:
        login_throttle.fail(attempt)
    refusal = SignInRefused(Reason.TOO_OFTEN if attempt is None else Reason.INVITATION)
    log_refusal(request, refusal)
    raise refusal


def _find(code: str) -> Person | None:
    try:
        ids = UUID(code[:_ID]), UUID(code[_ID : 2 * _ID])
    except ValueError:
        return None
    people = {each.public_id: each for each in Person.objects.filter(public_id__in=ids, is_active=True)}
    person, inviter = map(people.get, ids)
    if person is None or inviter is None or not person.is_local or person.has_usable_password():
        return None
    if not _Codes(inviter.public_id).check_token(person, code[2 * _ID :]):
        return None
    is_above = person.is_superuser and not inviter.is_superuser
    return person if granted_permissions(person) <= access_of_person(inviter).permissions and not is_above else None


def accept_password(request: HttpRequest, person: Person, password: str, *, browser: str) -> None:
    """Set the password that the invited person has chosen; the link is used up.

    Raises SignInRefused if another request was faster, InvalidRequest at `password`.
    """
    with recorded(_call(request, person, browser), person, operation="people.update"):
        if not may_use_password(person.username, None):
            raise _refused(request, Reason.NO_PASSWORDS, person)
        _use(request, person)
        set_password(person, password)
        person.save(update_fields=["password"])
    security.log_event("invitation used", person=person.username, **origin_of(request))


def accept_passkey(
    request: HttpRequest, person: Person, answer: str, name: str, *, browser: str
) -> tuple[Passkey, list[str]]:
    """Add the passkey that the invited person's browser has made, with its recovery codes; the link is used up.

    It answers `passkeys.begin` for the same `browser`. Raises SignInRefused as above, InvalidRequest, Conflict.
    """
    call = _call(request, person, browser)
    with recorded(call, person, operation="people.update"):
        _use(request, person)
        codes = passkeys.add(call, person, answer, name)
    security.log_event("invitation used", person=person.username, **origin_of(request))
    return passkeys.passkeys_of(person).latest("created_at"), codes


def _use(request: HttpRequest, person: Person) -> None:
    """End the link by another unusable password: of two requests at once, the database lets one through."""
    used = make_password(None)
    if not Person.objects.filter(pk=person.pk, password=person.password, is_active=True).update(password=used):
        raise _refused(request, Reason.INVITATION, person)
    person.password = used


def _refused(request: HttpRequest, reason: Reason, person: Person) -> SignInRefused:
    refusal = SignInRefused(reason, person=person.username)
    log_refusal(request, refusal)
    return refusal


def _call(request: HttpRequest, person: Person, browser: str) -> Call:
    return Call(
        surface=Surface.REST,
        person=reference_to(person),
        credential=CredentialRef(kind=CredentialKind.SESSION, id=browser),
        permissions=frozenset(),
        **origin_of(request),
    )
