"""A person's own passkeys: added and removed by whoever proves the present second factor, or else the password."""

import json
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase, JsonResponse
from django.utils.translation import gettext as _

from console.page_context import PageContext, page_at
from core import shown_once
from core.errors import invalid_member
from keys.sign_in import passkeys, second_factor, sessions
from keys.sign_in.credentials import Reason, SignInRefused, verify
from keys.sign_in.second_factor import WRONG_CODES


def _prove(page: PageContext) -> None:
    """Require the second factor, or the password of somebody who has none: the browser may have been left open."""
    person = page.person
    if not second_factor.is_on(person):
        try:
            proved = verify(page.request, username=person.username, password=page.form["password"])
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


def _ask(page: PageContext, task: str, **context: Any) -> HttpResponseBase:
    """The page that asks for the proof."""
    if page.problem is not None and not page.problem.errors:
        raise page.problem
    person = page.person
    has_factor = second_factor.is_on(person)
    context |= {"task": task, "has_second_factor": has_factor, "may_use_passkey": passkeys.can_be_used(person)}
    return page.render("account/account_passkey_proof.html", context)


@page_at("account/passkeys/options", "passkey-options", "POST", may_lack_second_factor=True)
def options(page: PageContext) -> HttpResponseBase:
    """What the browser needs to ask for a passkey as the proof."""
    return JsonResponse(
        {"publicKey": json.loads(passkeys.options(passkeys.ACCOUNT, page.call.credential.id, page.person))}
    )


def ask_to_add(page: PageContext) -> HttpResponseBase:
    return _ask(page, "add")


@page_at("account/passkeys/add", "passkey-begin", "GET", "POST", form=ask_to_add, may_lack_second_factor=True)
def begin(page: PageContext) -> HttpResponseBase:
    _prove(page)
    return page.redirect_showing(passkeys.begin(page.person, page.call.credential.id), "passkey-new")


@page_at("account/passkeys/new", "passkey-new", may_lack_second_factor=True)
def new(page: PageContext) -> HttpResponseBase:
    """Have the browser make a passkey, once after the proof."""
    options = shown_once.take(page.request)
    if options is None:
        return page.redirect("passkey-begin")
    return page.render("account/account_passkey_new.html", {"options": options})


@page_at("account/passkeys/save", "passkey-add", "POST", may_lack_second_factor=True)
def add(page: PageContext) -> HttpResponseBase:
    codes = passkeys.add(page.call, page.person, page.form["passkey"], page.form["name"])
    if not codes:
        return page.redirect("account", message=_("The passkey is added."))
    messages.success(page.request, _("The passkey is added. From now on you need it at every sign-in."))
    return page.redirect_showing(codes, "recovery-codes")


@page_at("account/passkeys/<uuid:passkey_id>/rename", "passkey-rename", "POST")
def rename(page: PageContext, passkey_id: UUID) -> HttpResponseBase:
    passkeys.rename(page.call, page.person, passkey_id, page.form["name"])
    return page.redirect("account", message=_("The passkey is renamed."))


def ask_to_remove(page: PageContext, passkey_id: UUID) -> HttpResponseBase:
    return _ask(page, "remove", passkey=passkeys.find(page.person, passkey_id))


@page_at("account/passkeys/<uuid:passkey_id>/remove", "passkey-remove", "GET", "POST", form=ask_to_remove)
def remove(page: PageContext, passkey_id: UUID) -> HttpResponseBase:
    _prove(page)
    passkeys.remove(page.call, page.person, passkey_id)
    sessions.end_others(page.request, page.call.person)
    return page.redirect("account", message=_("The passkey is removed. You are signed out everywhere else."))


def ask_to_replace(page: PageContext) -> HttpResponseBase:
    return _ask(page, "replace")


@page_at("account/passkeys/recovery-codes", "passkey-recovery-codes", "GET", "POST", form=ask_to_replace)
def replace_recovery_codes(page: PageContext) -> HttpResponseBase:
    _prove(page)
    return page.redirect_showing(second_factor.replace_recovery_codes(page.call, page.person), "recovery-codes")
