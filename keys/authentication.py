"""From the credential of a request to its `Call`, or to a refusal that reveals no reason.

The true reason of a 401 goes to the security log only. `keys.permissions.effective` decides what a credential may do,
and `keys.sign_in.sessions` signs people in.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import unquote

from django.contrib.auth import get_user
from django.contrib.sessions.models import Session
from django.core.exceptions import BadRequest
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.request import Request

from audit import security
from audit.models import reverted_by
from core.call import Call, CredentialKind, CredentialRef, DirectoryRef, PersonRef, Surface
from core.errors import AmbiguousCredential, Forbidden, GatewayError, InvalidRequest, Unauthorized, UnsupportedMediaType
from core.ip_addresses import is_allowed
from core.text.messages import message
from keys import api_keys, credential_values
from keys.callers import note_caller, origin_of
from keys.models import AccessToken, ApiKey, Person
from keys.people.account_status import CHECK_EVERY, AccountStatus, NotChecked, account_status
from keys.permissions import cache, effective
from keys.permissions.effective import LinkFacts
from keys.sign_in import passkeys, second_factor
from keys.sign_in.oidc.provider_sessions import provider_session_of
from keys.sign_in.sessions import digest_of_session

MAX_REASON = 500
REASON_HEADER = "X-Change-Reason"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that reorder text (Unicode bidi controls), which would deceive an approver."""


def identify_program(request: HttpRequest) -> Call:
    """The call of an API key (X-API-Key) or a platform token (Authorization: Bearer).

    Raises Unauthorized or AmbiguousCredential. An X-Change-Reason that cannot be kept is left out.
    """
    key, authorization = request.META.get("HTTP_X_API_KEY"), request.META.get("HTTP_AUTHORIZATION")
    # A proxy may have added one of them: who acts must not depend on which one we happen to prefer.
    if key is not None and authorization is not None:
        raise AmbiguousCredential
    try:
        if key is not None:
            call = call_of_key(key, request.META.get("HTTP_X_CLIENT_ID"), **_request_facts(request))
        elif authorization is not None:
            call = _identify_token(request, authorization)
        else:
            raise CredentialRefused("no credential")
    except CredentialRefused as refused:
        security.log_refusal(refused.reason, lookup_id=refused.lookup_id, **origin_of(request))
        raise refused.error from None
    return note_caller(request, call)


class CredentialRefused(Exception):
    """A credential is refused for a reason that the security log alone tells; the caller gets the `error`."""

    def __init__(self, reason: str, lookup_id: str | None = None, error: GatewayError | None = None) -> None:
        super().__init__(reason)
        self.reason, self.lookup_id, self.error = reason, lookup_id, error or Unauthorized()


def call_of_key(value: str, client_id: str | None, *, client_address: str | None, **request: Any) -> Call:
    """The call of an API key on the directory that `client_id` names; `request` are its id and its reason.

    Raises CredentialRefused, which nothing has logged yet.
    """
    address = client_address or ""
    presented = sha256(value.encode()).digest(), client_id, address  # nobody has to find the key itself in memory
    accepted = cache.kept_facts.find(presented, partial(_accept, value, client_id, address), _AcceptedKey.is_over)
    api_keys.note_use(accepted.facts.key, address=address)
    return effective.make_key_call(
        accepted.facts,
        surface=Surface.API,
        directory=accepted.directory,
        directory_refusal=accepted.refusal,
        client_address=client_address,
        **request,
    )


class _AcceptedKey(NamedTuple):
    """A key that was accepted with a Client ID from an address, which holds for one state of access.

    `refusal` is a class: an exception that is raised again and again would keep the frames of all those requests.
    `until` is when it has to be judged again although that is the same; None for never.
    """

    facts: effective.KeyFacts
    directory: DirectoryRef | None
    refusal: type[GatewayError] | None
    until: datetime | None

    def is_over(self) -> bool:
        return self.until is not None and self.until <= timezone.now()


def _accept(value: str, client_id: str | None, address: str) -> _AcceptedKey:
    """Raises CredentialRefused."""
    secret = credential_values.parse(value.strip(), credential_values.Prefix.API_KEY)
    if secret is None:
        raise CredentialRefused("malformed API key")
    facts = cache.find_key(secret.lookup_id)
    if reason := _key_refusal_reason(facts.key if facts else None, secret, address):
        raise CredentialRefused(reason, secret.lookup_id)
    assert facts is not None
    key, owner = facts.key, facts.key.owner
    _require_in_directory(owner, secret.lookup_id)
    ends = (
        key.expires_at,
        key.previous_valid_until if _is_previous(key, secret) else None,
        owner.directory_checked_at + CHECK_EVERY if owner.connection_id is not None else None,
    )
    until = min((end for end in ends if end is not None), default=None)
    return _AcceptedKey(facts, *effective.choose_directory(facts.links, client_id), until)


def _is_previous(key: ApiKey, secret: credential_values.Secret) -> bool:
    return secret.lookup_id == key.previous_lookup_id


def _key_refusal_reason(key: ApiKey | None, secret: credential_values.Secret, address: str) -> str | None:
    if key is None:
        return "unknown API key"
    is_previous = _is_previous(key, secret)
    if not secret.matches(key.previous_digest if is_previous else key.digest):
        return "wrong secret"
    rotated = is_previous and (key.previous_valid_until is None or key.previous_valid_until <= timezone.now())
    elsewhere = bool(key.allowed_addresses) and not is_allowed(address, key.allowed_addresses)
    reasons = (
        (key.revoked_at is not None, "API key revoked"),
        (key.state == "expired", "API key expired"),
        (rotated, "API key rotated"),
        (not key.owner.is_active, "owner deactivated"),
        (elsewhere, "address not allowed"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def _identify_token(request: HttpRequest, authorization: str) -> Call:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise CredentialRefused("unknown authentication scheme")
    secret = credential_values.parse(value.strip(), credential_values.Prefix.PLATFORM_TOKEN)
    if secret is None:
        raise CredentialRefused("malformed or not a platform token")
    session = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=timezone.now())
    tokens = AccessToken.objects.select_related("person", "connection").annotate(session_lives=Exists(session))
    token = tokens.filter(lookup_id=secret.lookup_id).first()
    if reason := _token_refusal_reason(token, secret):
        raise CredentialRefused(reason, secret.lookup_id)
    assert token is not None
    _require_in_directory(token.person, secret.lookup_id)
    credential = CredentialRef(kind=CredentialKind.PLATFORM_TOKEN, id=str(token.id), expires_at=token.expires_at)
    return _call_of_person(request, token.person, token.connection, credential, Surface.API)


def _require_in_directory(person: Person, lookup_id: str) -> None:
    """Refuse the credential of a person who has left their directory, or who could not be checked for too long.

    The latter is no fault of the credential: a 401 would make integrations discard their key, a 503 makes them retry.
    """
    status = account_status(person)
    if status is AccountStatus.LEFT:
        raise CredentialRefused("person has left the directory", lookup_id)
    if status is AccountStatus.UNKNOWN:
        raise CredentialRefused("person not checked for too long", lookup_id, NotChecked())


def _token_refusal_reason(token: Any, secret: credential_values.Secret) -> str | None:
    if token is None:
        return "unknown token"
    if not secret.matches(token.digest):
        return "wrong secret"
    reasons = (
        (token.revoked_at is not None, "token revoked"),
        (token.expires_at <= timezone.now(), "token expired"),
        (not token.session_lives, "session of the token over"),
        (not token.person.is_active, "person deactivated"),
        (second_factor.is_missing(token.person), "no second factor, which is required"),
    )
    return next((reason for applies, reason in reasons if applies), None)


class SecondFactorMissing(Forbidden):
    """The person has to set up a second factor before anything else (`SignIn:RequireSecondFactor`)."""

    title = "Set up a second factor in the console first"


def identify_session(
    request: HttpRequest, *, check_csrf: bool = True, client_id: str | None = None, may_lack_second_factor: bool = False
) -> Call:
    """The call of a signed-in person; `client_id`, if given, names the directory instead of the X-Client-Id header.

    Raises Unauthorized without a session, Forbidden if a request that changes something lacks its CSRF token (only
    signing in skips this check), and SecondFactorMissing without a required second factor. The pages that set one up
    pass `may_lack_second_factor`; the call may then do nothing.
    """
    # Not request.user: the middleware read that before this very request may have signed somebody in.
    person = get_user(request)
    if not isinstance(person, Person):
        security.log_refusal("no session", **origin_of(request))
        raise Unauthorized
    if check_csrf:
        _require_csrf_token(request)
    lacks_second_factor = second_factor.is_missing(person)
    if lacks_second_factor and not may_lack_second_factor:
        raise SecondFactorMissing
    session_id = digest_of_session(request.session.session_key)
    credential = CredentialRef(
        kind=CredentialKind.SESSION,
        id=session_id,
        expires_at=request.session.get_expiry_date(),
        by_passkey=passkeys.began_session(request.session, person),
    )
    if (began_at := provider_session_of(request)) is not None:
        credential = replace(credential, acr=began_at.acr, amr=tuple(began_at.amr))
    call = _call_of_person(request, person, person.connection, credential, Surface.REST, client_id=client_id)
    return note_caller(request, replace(call, permissions=frozenset()) if lacks_second_factor else call)


def _call_of_person(
    request: HttpRequest,
    person: Person,
    own: Any,
    credential: CredentialRef,
    surface: Surface,
    *,
    client_id: str | None = None,
) -> Call:
    choices = [LinkFacts(effective.reference_to_directory(row), True) for row in effective.find_directories(own)]
    directory, refusal = effective.choose_directory(choices, client_id or request.META.get("HTTP_X_CLIENT_ID"))
    return effective.make_person_call(
        person,
        cache.access_of_person(person),
        surface=surface,
        credential=credential,
        directory=directory,
        directory_refusal=refusal,
        **_request_facts(request),
    )


def _require_csrf_token(request: HttpRequest) -> None:
    check = CSRFCheck(lambda _: HttpResponse())
    check.process_request(request)
    try:
        reason = check.process_view(request, lambda _: HttpResponse(), (), {})
    except (MultiPartParserError, BadRequest):  # the check also looks for the token in a form: this one is broken
        raise UnsupportedMediaType from None
    if reason:
        security.log_refusal(f"CSRF: {reason}", **origin_of(request))
        raise Forbidden


def _request_facts(request: HttpRequest) -> dict[str, Any]:
    try:
        reason = read_reason(request.META.get("HTTP_X_CHANGE_REASON"))
    except InvalidRequest:  # the pipeline refuses it after the permissions: who lacks them learns nothing else
        reason = None
    return {**origin_of(request), "reason": reason}


def read_reason(header: str | None) -> str | None:
    """The text of an X-Change-Reason header: UTF-8 as it is, or percent-encoded; raises InvalidRequest."""
    if header is None:
        return None
    if not header.strip():
        raise _bad_reason("is empty")
    try:
        # WSGI hands over the header's bytes as latin-1 (PEP 3333).
        text = header.strip().encode("latin-1").decode("utf-8")
    except UnicodeError:
        raise _bad_reason("is not UTF-8") from None
    if text.isascii() and "%" in text:
        try:
            text = unquote(text, errors="strict")
        except UnicodeDecodeError:
            raise _bad_reason("is not percent-encoded UTF-8") from None
    return check_reason(text)


def read_reason_parameter(text: str, *, header: str | None) -> str | None:
    """The text of the query parameter `reason`, which takes the place of the header; raises InvalidRequest."""
    if header is not None:
        raise _bad_reason("is given twice, as X-Change-Reason, too", "reason")
    if not text.strip():
        raise _bad_reason("is empty", "reason")
    return check_reason(text, "reason")


def check_reason(text: str | None, parameter: str = REASON_HEADER) -> str | None:
    """The reason as it is stored, None if empty; raises InvalidRequest."""
    text = (text or "").strip()
    if len(text) > MAX_REASON:
        raise _bad_reason(f"is longer than {MAX_REASON} characters", parameter)
    if _CONTROL.search(text):
        raise _bad_reason("contains control characters", parameter)
    if reverted_by(text) is not None:
        raise _bad_reason("starts with a prefix reserved for reverts", parameter)
    return text or None


def _bad_reason(problem: str, parameter: str = REASON_HEADER) -> InvalidRequest:
    sentence = message("{parameter} {what}.", parameter=parameter, what=problem)
    return InvalidRequest.naming(problem, parameter=parameter, sentence=sentence)


class CallAuthentication(BaseAuthentication):
    """Identifies callers for REST framework: `request.auth` is the call."""

    identify: Callable[[HttpRequest], Call]

    def authenticate(self, request: Request) -> tuple[PersonRef, Call]:
        call = self.identify(request._request)
        return call.person, call


class ProgramAuthentication(CallAuthentication):
    identify = staticmethod(identify_program)


class SessionAuthentication(CallAuthentication):
    identify = staticmethod(identify_session)


class LaxSessionAuthentication(CallAuthentication):
    """Also admits people who have yet to set up a second factor; their call may do nothing."""

    identify = staticmethod(partial(identify_session, may_lack_second_factor=True))
