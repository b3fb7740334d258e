"""A person's own account: permissions, password, second factor, agents, sessions, access token and language.

Like `/rest/session`, these pages call few operations: they are about the identity that operations are called with.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import segno
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.utils.translation import get_language, ngettext, override
from django.utils.translation import gettext as _

from console.account.proof import ask_for_proof, prove
from console.page_context import PageContext, page_at
from console.shared.wording import client_name
from core import shown_once
from core.errors import InvalidRequest, invalid_member
from core.text.vocabulary import texts_by_name
from keys.agents import issued_tokens
from keys.permissions.scopes import stored_scopes_of_person
from keys.sign_in import passkeys, second_factor, sessions
from keys.sign_in.credentials import Reason, SignInRefused
from keys.sign_in.second_factor import WRONG_CODES
from keys.sign_in.sessions import change_own_password, stored_key_of

_APPS = texts_by_name(
    {
        "directory": "The directory",
        "approvals": "Approvals",
        "audit": "The operations log",
        "keys": "Roles, keys and people",
    }
)
_MAX_SESSIONS = 100
_MAX_AGENTS = 100


@page_at("account", "account")
def account(page: PageContext) -> HttpResponseBase:
    """The account page. It shows a new access token once, and a form's refusal beside its field."""
    if page.problem is not None and not page.problem.errors:  # no field can show it: it becomes a page
        raise page.problem
    token_was_shown = not page.is_post and shown_once.is_expected(page.request)
    person = page.person
    found = page.list_first("permissions.search", 1000)
    held = [{**item, "text": _permission_text(item)} for item in found if item["name"] in page.call.permissions]
    own = stored_key_of(page.request)
    living = list(sessions.sessions_of(person.pk)[:_MAX_SESSIONS])
    return page.render(
        "account/account.html",
        {
            "person": person,
            "permissions": {
                label: [item for item in held if item["name"].startswith(f"{app}.")] for app, label in _APPS.items()
            },
            "permission_count": len(held),
            "confined_to": [
                [scope["distinguishedName"] for scope in scopes] for scopes in stored_scopes_of_person(person)
            ],
            "agents": page.list_first("agents.list-own", _MAX_AGENTS),
            "may_issue_agent_tokens": issued_tokens.may_be_issued(),
            "has_second_factor": second_factor.is_on(person),
            "has_authenticator": second_factor.has_authenticator(person),
            "passkeys": list(passkeys.passkeys_of(person)),
            "may_have_passkeys": passkeys.find_relying_party() is not None,
            "recovery_codes_left": second_factor.remaining_recovery_codes(person),
            "sessions": [
                {"session": session, "current": session.session_key == own, "client": client_name(session.user_agent)}
                for session in sorted(living, key=lambda session: session.session_key != own)
            ],
            "token": shown_once.take(page.request),
            "token_was_shown": token_was_shown,
        },
    )


def _permission_text(permission: Mapping[str, Any]) -> str:
    """A permission in words: in English its description in the database, in other languages its translated title."""
    is_english = (get_language() or "en").startswith("en")
    return str(permission["description"]) if is_english else _(permission["title"])


# --- password


@page_at("account/password", "account-password", "POST", form=account)
def password(page: PageContext) -> HttpResponseBase:
    current, new, again = (page.form.get(name, "") for name in ("current", "new", "again"))
    if new != again:
        raise invalid_member("again", _("This is not the same as the new password."))
    try:
        change_own_password(page.request, page.call, page.person, current=current, new=new)
    except SignInRefused as refusal:
        text = _("This is not your present password.")
        if refusal.reason is Reason.TOO_OFTEN:
            text = _("There were too many wrong passwords. Try again in a quarter of an hour.")
        raise invalid_member("current", text) from refusal
    except InvalidRequest as refusal:
        raise invalid_member("new", refusal.detail) from refusal
    return page.redirect("account", message=_("Your password is changed. You are signed out everywhere else."))


# --- second factor


def ask_to_set_up(page: PageContext) -> HttpResponseBase:
    if page.problem is None and second_factor.is_on(page.person):
        return page.redirect("account")
    return ask_for_proof(page, "set-up")


@page_at(
    *("account/second-factor/set-up", "second-factor-set-up", "GET", "POST"),
    form=ask_to_set_up,
    may_lack_second_factor=True,
)
def set_up_second_factor(page: PageContext) -> HttpResponseBase:
    """With it, passkeys can be added, which sign people in without a password: a stolen session must not get there."""
    if not second_factor.is_on(page.person):
        prove(page)
    second_factor.enrol(page.person)
    return page.redirect("second-factor")


@page_at("account/second-factor", "second-factor", may_lack_second_factor=True)
def enrolment(page: PageContext) -> HttpResponseBase:
    """The TOTP secret as a QR code and as text, until a first code confirms that the authenticator has it."""
    if page.problem is not None and not page.problem.errors:
        raise page.problem
    found, is_required = second_factor.find_enrolment(page.person), second_factor.is_missing(page.person)
    if found is None:
        if is_required:
            may_have_passkeys = passkeys.find_relying_party() is not None
            return page.render("account/account_second_factor_required.html", {"may_have_passkeys": may_have_passkeys})
        return page.redirect("account")
    context = {
        "is_required": is_required,
        "image": segno.make(found.address, error="m").svg_data_uri(scale=4, border=2, light="#ffffff", dark="#000000"),
        "secret": re.findall(".{1,4}", found.secret),
        "address": found.address,
    }
    return page.render("account/account_second_factor.html", context)


@contextmanager
def _wrong_code_as_field_error() -> Iterator[None]:
    try:
        yield
    except SignInRefused as refusal:
        raise invalid_member("code", _(WRONG_CODES[refusal.reason])) from refusal


@page_at(
    *("account/second-factor/confirm", "second-factor-confirm", "POST"), form=enrolment, may_lack_second_factor=True
)
def confirm_second_factor(page: PageContext) -> HttpResponseBase:
    with _wrong_code_as_field_error():
        codes = second_factor.confirm(page.call, page.person, page.form["code"])
    messages.success(page.request, _("The second factor is on. From now on you are asked for a code at every sign-in."))
    return page.redirect_showing(codes, "recovery-codes")


@page_at("account/second-factor/recovery-codes", "recovery-codes")
def recovery_codes(page: PageContext) -> HttpResponseBase:
    """New recovery codes, shown once."""
    return page.render("account/account_recovery_codes.html", {"codes": shown_once.take(page.request)})


@page_at("account/second-factor/replace", "second-factor-replace", "POST", form=account)
def replace_recovery_codes(page: PageContext) -> HttpResponseBase:
    with _wrong_code_as_field_error():
        second_factor.require_next_code(page.call, page.person, page.form["code"])
    return page.redirect_showing(second_factor.replace_recovery_codes(page.call, page.person), "recovery-codes")


@page_at("account/second-factor/remove", "second-factor-remove", "POST", form=account)
def remove_second_factor(page: PageContext) -> HttpResponseBase:
    with _wrong_code_as_field_error():
        second_factor.remove(page.call, page.person, page.form["code"])
    if second_factor.is_on(page.person):
        return page.redirect("account", message=_("The authenticator is gone. Your passkeys stay."))
    return page.redirect("account", message=_("The second factor is off. Your password alone signs you in."))


# --- agents


@page_at("account/agents/<uuid:agent_id>/revoke", "own-agent-revoke", "POST", post="agents.revoke-own")
def revoke_agent(page: PageContext, agent_id: UUID) -> HttpResponseBase:
    ended = page.perform("agents.revoke-own", id=agent_id)
    return page.redirect("account", message=_("{name} can do nothing for you any more.").format(name=ended["name"]))


# --- sessions and access token


@page_at("account/sessions/<uuid:session_id>/end", "session-end", "POST")
def end_session(page: PageContext, session_id: UUID) -> HttpResponseBase:
    sessions.end(page.request, page.call.person, session_id)
    return page.redirect("account", message=_("You are signed out there."))


@page_at("account/sessions/end-others", "sessions-end-others", "POST")
def end_other_sessions(page: PageContext) -> HttpResponseBase:
    count = sessions.end_others(page.request, page.call.person)
    text = ngettext(
        "You are signed out everywhere else ({n} session).", "You are signed out everywhere else ({n} sessions).", count
    )
    return page.redirect("account", message=text.format(n=count))


@page_at("account/access-token", "access-token", "POST")
def access_token(page: PageContext) -> HttpResponseBase:
    """Issue a new access token and show it once on the account page."""
    value, expires_at = sessions.issue_access_token(page.request, page.call)
    address = page.request.build_absolute_uri("/api/me")
    shown = {"value": value, "until": expires_at.isoformat(), "example_address": address}
    return page.redirect_showing(shown, "account")


@page_at("account/language", "language", "POST", may_lack_second_factor=True)
def choose_language(page: PageContext) -> HttpResponseBase:
    """Store the language in a cookie, or delete the cookie so that the browser's preference applies."""
    chosen = page.form["language"]
    response = page.redirect("account")
    if chosen not in dict(settings.LANGUAGES):
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME, samesite="Lax")
        return response
    with override(chosen):  # this request still has the former language
        messages.success(page.request, _("The pages are in English now."))
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        chosen,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite="Lax",
    )
    return response
