"""Asking a person for their second factor again, before what must not be done at a browser that was left open."""

from typing import Annotated

from django.conf import settings
from pydantic import Field

from core.call import Call
from core.errors import GatewayError
from core.shapes import Body
from core.text.messages import message
from keys.models import Person
from keys.sign_in import second_factor
from keys.sign_in.credentials import Reason, SignInRefused

WRONG_CODES = {
    Reason.CODE_MISSING: message("Type the code that your authenticator shows."),
    Reason.CODE_WRONG: message("This code is wrong, or was used already. Wait for the next one and try again."),
    Reason.CODES_TOO_OFTEN: message("There were too many wrong codes. Try again in a quarter of an hour."),
}


class NotConfirmed(GatewayError):
    """Not 401, for the session is good, and not 403, which names nothing."""

    status, code, title = 422, "Approvals.CodeWrong", "The second factor was not confirmed"


class ConfirmedBody(Body):
    """Base of the bodies of what is confirmed with the second factor, where the configuration and the person have one.

    The code is looked at before the transaction of the operation: its rollback must not take the count of wrong ones.
    """

    code: Annotated[
        str | None,
        Field(
            max_length=64,
            description="Of the authenticator, or a recovery code: needed of a person who has set one up, where "
            "`Approvals:ConfirmSecondFactor` is on.",
        ),
    ] = None


def is_needed(person_id: int | None) -> bool:
    """Whether a person is asked for a code again."""
    if person_id is None or not settings.CONFIGURATION.Approvals.ConfirmSecondFactor:
        return False
    person = Person.objects.filter(pk=person_id).first()
    return person is not None and second_factor.is_on(person)


def require_confirmation(call: Call, code: str | None) -> None:
    """Accept the code where one is needed or given; raises NotConfirmed. Wrong ones count as at signing in."""
    if code is None and not is_needed(call.person.id):
        return
    person = Person.objects.filter(pk=call.person.id).first()
    if person is None:
        return
    try:
        second_factor.require_code(call, person, code)
    except SignInRefused as refusal:
        detail = WRONG_CODES[refusal.reason]
        raise NotConfirmed.naming(detail, pointer="#/code") from None
