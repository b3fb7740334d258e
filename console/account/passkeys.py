"""A person's own passkeys: added and removed by whoever proves the present second factor, or else the password."""

import json
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase, JsonResponse
from django.utils.translation import gettext as _

from console.account.proof import ask_for_proof, prove
from console.page_context import PageContext, page_at
from core import shown_once
from keys.sign_in import passkeys, second_factor, sessions


@page_at("account/passkeys/options", "passkey-options", "POST", may_lack_second_factor=True)
def options(page: PageContext) -> HttpResponseBase:
    """What the browser needs to ask for a passkey as the proof."""
    return JsonResponse(
        {"publicKey": json.loads(passkeys.options(passkeys.ACCOUNT, page.call.credential.id, page.person))}
    )


def ask_to_add(page: PageContext) -> HttpResponseBase:
    return ask_for_proof(page, "add")


@page_at("account/passkeys/add", "passkey-begin", "GET", "POST", form=ask_to_add, may_lack_second_factor=True)
def begin(page: PageContext) -> HttpResponseBase:
    prove(page)
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
    return ask_for_proof(page, "remove", passkey=passkeys.find(page.person, passkey_id))


@page_at("account/passkeys/<uuid:passkey_id>/remove", "passkey-remove", "GET", "POST", form=ask_to_remove)
def remove(page: PageContext, passkey_id: UUID) -> HttpResponseBase:
    prove(page)
    passkeys.remove(page.call, page.person, passkey_id)
    sessions.end_others(page.request, page.call.person)
    return page.redirect("account", message=_("The passkey is removed. You are signed out everywhere else."))


def ask_to_replace(page: PageContext) -> HttpResponseBase:
    return ask_for_proof(page, "replace")


@page_at("account/passkeys/recovery-codes", "passkey-recovery-codes", "GET", "POST", form=ask_to_replace)
def replace_recovery_codes(page: PageContext) -> HttpResponseBase:
    prove(page)
    return page.redirect_showing(second_factor.replace_recovery_codes(page.call, page.person), "recovery-codes")
