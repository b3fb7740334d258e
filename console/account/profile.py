"""A person's own account: who they are and what they may do, how they sign in and where, and their access token.

These pages call hardly any operations: they are about the identity that operations are called with, as
`/rest/session` is.
"""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import segno
from django.contrib import messages
from django.http import HttpResponseBase
from django.urls import path
from django.utils.translation import get_language, gettext_lazy, ngettext
from django.utils.translation import gettext as _

from console.page_context import PageContext, console_page
from console.shared.names import client_name
from core import shown_once
from core.errors import InvalidRequest, invalid_member
from keys.models import Person
from keys.permissions.scoping import kept_of_person
from keys.sign_in import second_factor, sessions
from keys.sign_in.confirmation import WRONG_CODES
from keys.sign_in.credentials import Reason, SignInRefused
from keys.sign_in.own_password import change_own_password
from keys.sign_in.session_store import stored_key_of

_APPS = {
    "directory": gettext_lazy("The directory"),
    "approvals": gettext_lazy("Approvals"),
    "audit": gettext_lazy("The operations log"),
    "keys": gettext_lazy("Roles, keys and people"),
}
_MOST_SESSIONS = 100
_MOST_AGENTS = 100


@console_page()
def account(page: PageContext) -> HttpResponseBase:
    """The page, and once with a new access token."""
    return _page(page, token_was_shown=shown_once.is_expected(page.request))


def _page(page: PageContext, *, problem: InvalidRequest | None = None, **context: Any) -> HttpResponseBase:
    """The whole page; `problem` is a refused form, of which is said beside its field what was wrong with it."""
    person = _person(page)
    found = page.perform("permissions.search", query={"pageSize": "1000"})["items"]
    held = [{**item, "says": _said(item)} for item in found if item["name"] in page.call.permissions]
    own = stored_key_of(page.request)
    living = list(sessions.sessions_of(person.pk)[:_MOST_SESSIONS])
    return page.render(
        "account/account.html",
        {
            "person": person,
            "permissions": {
                label: [item for item in held if item["name"].startswith(f"{app}.")] for app, label in _APPS.items()
            },
            "permission_count": len(held),
            "confined_to": [[scope["distinguishedName"] for scope in scopes] for scopes in kept_of_person(person)],
            "agents": _own_agents(page),
            "has_second_factor": second_factor.is_on(person),
            "recovery_codes_left": second_factor.remaining_recovery_codes(person),
            "sessions": [
                {"session": session, "current": session.session_key == own, "client": client_name(session.user_agent)}
                for session in sorted(living, key=lambda session: session.session_key != own)
            ],
            "problem": problem,
            "token": shown_once.take(page.request),
            **context,
        },
    )


def _said(permission: Mapping[str, Any]) -> str:
    """A permission in words. Its description is the database's, in English alone; other languages have its title."""
    is_english = (get_language() or "en").startswith("en")
    return str(permission["description"]) if is_english else _(permission["title"])


def _own_agents(page: PageContext) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.perform("agents.list-own", query={"pageSize": str(_MOST_AGENTS)})["items"]
    return found


def _person(page: PageContext) -> Person:
    person = page.request.user
    assert isinstance(person, Person)  # pages are for signed-in people
    return person


# --- password


@console_page("POST")
def password(page: PageContext) -> HttpResponseBase:
    current, new, again = (page.form.get(name, "") for name in ("current", "new", "again"))
    if new != again:
        return _page(page, problem=invalid_member("again", _("This is not the same as the new password.")))
    try:
        change_own_password(page.request, page.call, _person(page), current=current, new=new)
    except SignInRefused as refusal:
        text = _("This is not your present password.")
        if refusal.reason is Reason.TOO_OFTEN:
            text = _("There were too many wrong passwords. Try again in a quarter of an hour.")
        return _page(page, problem=invalid_member("current", text))
    except InvalidRequest as refusal:
        return _page(page, problem=invalid_member("new", refusal.detail))
    return page.redirect("account", said=_("Your password is changed. You are signed out everywhere else."))


# --- second factor


@console_page("POST", may_lack_second_factor=True)
def set_up_second_factor(page: PageContext) -> HttpResponseBase:
    second_factor.enrol(_person(page))
    return page.redirect("second-factor")


@console_page(may_lack_second_factor=True)
def enrolment(page: PageContext) -> HttpResponseBase:
    """The secret for the authenticator, for its camera and for typing, until a first code confirms that it has it."""
    return _enrolment_page(page)


def _enrolment_page(page: PageContext, *, problem: InvalidRequest | None = None) -> HttpResponseBase:
    found = second_factor.find_enrolment(_person(page))
    if found is None and second_factor.is_missing(_person(page)):
        return page.render("account/account_second_factor_required.html")
    if found is None:
        return page.redirect("account")
    image = segno.make(found.address, error="m").svg_data_uri(scale=4, border=2, light="#ffffff", dark="#000000")
    is_required = second_factor.is_missing(_person(page))
    context = {
        "problem": problem,
        "is_required": is_required,
        "image": image,
        "secret": re.findall(".{1,4}", found.secret),
        "address": found.address,
    }
    return page.render("account/account_second_factor.html", context)


@console_page("POST", may_lack_second_factor=True)
def confirm_second_factor(page: PageContext) -> HttpResponseBase:
    try:
        codes = second_factor.confirm(page.call, _person(page), page.form.get("code", ""))
    except SignInRefused as refusal:
        return _enrolment_page(page, problem=invalid_member("code", _(WRONG_CODES[refusal.reason])))
    messages.success(page.request, _("The second factor is on. From now on you are asked for a code at every sign-in."))
    return page.redirect_showing(codes, "recovery-codes")


@console_page()
def recovery_codes(page: PageContext) -> HttpResponseBase:
    """New recovery codes, once."""
    return page.render("account/account_recovery_codes.html", {"codes": shown_once.take(page.request)})


@console_page("POST")
def change_second_factor(page: PageContext, change: str) -> HttpResponseBase:
    """New recovery codes, or turning it off; both take a code."""
    call, person, code = page.call, _person(page), page.form.get("code", "")
    try:
        if change == "replace":
            codes = second_factor.replace_recovery_codes(call, person, code)
            return page.redirect_showing(codes, "recovery-codes")
        second_factor.remove(call, person, code)
    except SignInRefused as refusal:
        return _page(page, problem=invalid_member("code", _(WRONG_CODES[refusal.reason])))
    return page.redirect("account", said=_("The second factor is off. Your password alone signs you in."))


# --- agents


@console_page("POST", post="agents.revoke-own")
def revoke_agent(page: PageContext, agent_id: UUID) -> HttpResponseBase:
    ended = page.perform("agents.revoke-own", id=agent_id)
    return page.redirect("account", said=_("{name} can do nothing for you any more.").format(name=ended["name"]))


# --- sessions and access token


@console_page("POST")
def end_session(page: PageContext, session_id: UUID) -> HttpResponseBase:
    sessions.end(page.request, page.call.person, session_id)
    return page.redirect("account", said=_("You are signed out there."))


@console_page("POST")
def end_other_sessions(page: PageContext) -> HttpResponseBase:
    count = sessions.end_others(page.request, page.call.person)
    text = ngettext(
        "You are signed out everywhere else ({n} session).", "You are signed out everywhere else ({n} sessions).", count
    )
    return page.redirect("account", said=text.format(n=count))


@console_page("POST")
def access_token(page: PageContext) -> HttpResponseBase:
    """Make a new platform token, and show it once on the page of the account."""
    value, expires_at = sessions.issue_access_token(page.request, page.call)
    address = page.request.build_absolute_uri("/api/me")
    shown = {"value": value, "until": expires_at.isoformat(), "example_address": address}
    return page.redirect_showing(shown, "account")


urls = [
    path("account", account, name="account"),
    path("account/password", password, name="account-password"),
    path("account/second-factor", enrolment, name="second-factor"),
    path("account/second-factor/set-up", set_up_second_factor, name="second-factor-set-up"),
    path("account/second-factor/recovery-codes", recovery_codes, name="recovery-codes"),
    path("account/second-factor/confirm", confirm_second_factor, name="second-factor-confirm"),
    *(
        path(
            f"account/second-factor/{change}", change_second_factor, {"change": change}, name=f"second-factor-{change}"
        )
        for change in ("replace", "remove")
    ),
    path("account/agents/<uuid:agent_id>/revoke", revoke_agent, name="own-agent-revoke"),
    path("account/sessions/end-others", end_other_sessions, name="sessions-end-others"),
    path("account/sessions/<uuid:session_id>/end", end_session, name="session-end"),
    path("account/access-token", access_token, name="access-token"),
]
