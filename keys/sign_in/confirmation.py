"""What a decision takes besides the session: a code of the second factor again, or a passkey for this very decision."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated
from uuid import UUID

from django.conf import settings
from pydantic import Field

from core.call import Call
from core.errors import GatewayError
from core.operation import Risk
from core.shapes import Body
from core.text.messages import message
from keys.models import Person
from keys.sign_in import passkeys, second_factor
from keys.sign_in.credentials import SignInRefused
from keys.sign_in.second_factor import WRONG_CODES


class NotConfirmed(GatewayError):
    """A 422: the session is good, so no 401, and a 403 would not name the member."""

    status, code, title = 422, "Approvals.CodeWrong", "The second factor was not confirmed"


class DecisionBody(Body, ABC):
    """Base of bodies of decisions, which a passkey may have to confirm.

    What confirms is checked before the operation's transaction, whose rollback would undo the count of wrong codes.
    """

    passkey: Annotated[
        str | None,
        Field(
            max_length=passkeys.MAX_ANSWER,
            description="What `navigator.credentials.get()` answered to the options that "
            "`POST /rest/change-requests/passkey-options` gives for this decision, as JSON: needed where "
            "`passkeyNeeded` says so.",
        ),
    ] = None

    @abstractmethod
    def purpose(self, id: UUID | None) -> str:
        """What a passkey confirms, as `decision_purpose` says; `id` is that in the operation's path."""


class ConfirmedBody(DecisionBody):
    """Base of bodies that are confirmed with the second factor, if the configuration says so and the person has one."""

    code: Annotated[
        str | None,
        Field(
            max_length=64,
            description="Of the authenticator, or a recovery code: needed of a person who has set one up, where "
            "`Approvals:ConfirmSecondFactor` is on. A passkey will do in its place.",
        ),
    ] = None


def decision_purpose(decision: str, digests: Iterable[tuple[UUID | None, str]]) -> str:
    """The purpose of a challenge for one decision about some requests, with the digests if it approves them."""
    items = sorted({(str(id), digest if decision == "approve" else "") for id, digest in digests})
    return "decision " + hashlib.sha256(json.dumps([decision, items]).encode()).hexdigest()


def needs_confirmation(person_id: int | None) -> bool:
    """Whether a signed-in person is asked for a code again (`Approvals:ConfirmSecondFactor`)."""
    if person_id is None or not settings.CONFIGURATION.Approvals.ConfirmSecondFactor:
        return False
    person = Person.objects.filter(pk=person_id).first()
    return person is not None and second_factor.is_on(person)


def needs_passkey(call: Call, risk: str) -> bool:
    """Whether the caller has yet to use a passkey before they decide a change of this risk."""
    configured = settings.CONFIGURATION.SignIn
    if call.credential.confirmed_by_passkey:
        return False
    if configured.SecurityNeedsPasskey and risk == Risk.SECURITY:
        return True
    return configured.ApproversNeed == "passkey" and not call.credential.by_passkey


def confirm(call: Call, body: DecisionBody, id: UUID | None = None) -> Call:
    """Check the passkey or code if one is needed or given; return the call, which says that a passkey was used.

    Raises NotConfirmed. Wrong codes count as at the sign-in.
    """
    code = body.code if isinstance(body, ConfirmedBody) else None
    is_asked = isinstance(body, ConfirmedBody) and needs_confirmation(call.person.id)
    if body.passkey is None and code is None and not is_asked:
        return call
    person = Person.objects.filter(pk=call.person.id).first()
    if person is None:
        return call
    if body.passkey is not None:
        try:
            passkeys.verify(call, body.passkey, purpose=body.purpose(id), session=call.credential.id, person=person)
        except SignInRefused:
            detail = message("The passkey did not confirm this decision. Try again.")
            raise NotConfirmed.naming(detail, pointer="#/passkey") from None
        return replace(call, credential=replace(call.credential, confirmed_by_passkey=True))
    try:
        second_factor.require_code(call, person, code)
    except SignInRefused as refusal:
        raise NotConfirmed.naming(WRONG_CODES[refusal.reason], pointer="#/code") from None
    return call
