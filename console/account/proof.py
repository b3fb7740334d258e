"""How somebody signed in proves again that it is they, before they change how they sign in."""

from typing import Any

from django.http import HttpResponseBase
from django.utils.translation import gettext as _

from console.page_context import PageContext
from core.errors import invalid_member
from keys.sign_in import passkeys, second_factor
from keys.sign_in.credentials import Reason, SignInRefused, verify
from keys.sign_in.second_factor import WRONG_CODES
from keys.sign_in.sessions import has_just_come_from_provider


def prove(page: PageContext) -> None:
    """Require the second factor, or the password of somebody who has none: the browser may have been left open.

    Whoever has just signed in at a provider needs no password: their account may have none.
    """
    person = page.person
    if not second_factor.is_on(person):
        if has_just_come_from_provider(page.request):
            return
        try:
            proved = verify(page.request, username=person.username, password=page.form["password"], is_sign_in=False)
        except SignInRefused as refusal:
            text = _("This is not your present password.")
            if refusal.reason is Reason.TOO_OFTEN:
                text = _("There were too many wrong passwords. Try again in a quarter of an hour.")
            raise invalid_member("password", text) from refusal
        if proved.pk != person.pk:
            raise invalid_member("password", _("This is not your present password."))
        return
    try:
        if answer := page.form["passkey"]:
            passkeys.verify(page.call, answer, purpose=passkeys.ACCOUNT, session=page.call.credential.id, person=person)
        else:
            second_factor.require_code(page.call, person, page.form["code"])
    except SignInRefused as refusal:
        text = WRONG_CODES.get(refusal.reason, _("This passkey was not accepted. Try again."))
        raise invalid_member("code", _(text)) from refusal


def ask_for_proof(page: PageContext, task: str, **context: Any) -> HttpResponseBase:
    """The page that asks for the proof."""
    if page.problem is not None and not page.problem.errors:
        raise page.problem
    person = page.person
    context |= {
        "task": task,
        "has_second_factor": second_factor.is_on(person),
        "may_use_passkey": passkeys.can_be_used(person),
        "needs_password": not has_just_come_from_provider(page.request),
    }
    return page.render("account/account_proof.html", context)
