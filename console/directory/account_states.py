"""Accounts by their state: a page for each of the states, every account with what its state was told by."""

from dataclasses import dataclass

from django.http import Http404, HttpResponseBase
from django.urls import path
from django.utils.translation import gettext_noop

from console.directory.search import SCOPES
from console.page_context import PageContext, console_page
from console.shared.downloads import download, download_paths
from console.shared.lists import USUAL, given_in, render_list
from core.errors import Forbidden
from directory.queries.account_states import AccountState
from directory.shapes import kinds

KINDS = {str(kind): kinds.KINDS[kind].many for kind in kinds.Kind if kind in kinds.ACCOUNT_KINDS}


@dataclass(frozen=True, slots=True)
class State:
    """What a page says of a state, in English: it is translated where it is shown.

    `sort` is the attribute that tells most of it; `days` asks for their number.
    """

    label: str
    meaning: str
    sort: str = ""
    days: str = ""


STATES: dict[str, dict[AccountState, State]] = {
    gettext_noop("Account"): {
        AccountState.ENABLED: State(
            gettext_noop("Enabled"), gettext_noop("Nothing keeps them from signing in but what the other states say.")
        ),
        AccountState.DISABLED: State(gettext_noop("Disabled"), gettext_noop("Nobody can sign in with them.")),
        AccountState.LOCKED_OUT: State(
            gettext_noop("Locked out"),
            gettext_noop("Too many wrong passwords, and the lock-out is not over."),
            "lockoutTime",
        ),
        AccountState.EXPIRED: State(gettext_noop("Expired"), gettext_noop("Their day has come."), "accountExpires"),
        AccountState.EXPIRING: State(
            gettext_noop("Expiring"), gettext_noop("They expire soon."), "accountExpires", gettext_noop("Within days")
        ),
    },
    gettext_noop("Password"): {
        AccountState.PASSWORD_EXPIRED: State(
            gettext_noop("Password expired"),
            gettext_noop("It has to be changed at the next sign-in, because of its age."),
            "pwdLastSet",
        ),
        AccountState.PASSWORD_EXPIRING: State(
            gettext_noop("Password expiring"),
            gettext_noop("It expires soon."),
            "pwdLastSet",
            gettext_noop("Within days"),
        ),
        AccountState.PASSWORD_NEVER_EXPIRES: State(
            gettext_noop("Password never expires"), gettext_noop("Whatever the policy says.")
        ),
        AccountState.PASSWORD_NOT_REQUIRED: State(
            gettext_noop("Password not required"), gettext_noop("It may be empty.")
        ),
        AccountState.MUST_CHANGE_PASSWORD: State(
            gettext_noop("Must change password"),
            gettext_noop("It was set by somebody else, to be changed at the next sign-in."),
        ),
    },
    gettext_noop("Sign-in"): {
        AccountState.INACTIVE: State(
            gettext_noop("Inactive"),
            gettext_noop("Nobody has signed in with them for a time."),
            "lastLogonTimestamp",
            gettext_noop("For days"),
        ),
        AccountState.NEVER_SIGNED_IN: State(
            gettext_noop("Never signed in"), gettext_noop("Nobody has ever signed in with them.")
        ),
    },
}
_BY_NAME = {state.value: (state, shown) for group in STATES.values() for state, shown in group.items()}
_USUAL_DAYS = {AccountState.INACTIVE: "90"}


@console_page()
def overview(page: PageContext) -> HttpResponseBase:
    """The states to choose from."""
    if not page.may("accounts.search"):
        raise Forbidden
    return page.render("directory/account_states.html", {"state_groups": STATES})


@console_page(get="accounts.search")
def accounts(page: PageContext, state: str) -> HttpResponseBase:
    """The accounts in a state; they come after the page, for telling them from many others takes its time."""
    if state not in _BY_NAME:
        raise Http404
    name, shown = _BY_NAME[state]
    query = _query_of(page, name)
    context = {
        "state_groups": STATES,
        "state": state,
        "shown": shown,
        "days": query.get("days"),
        "kinds": KINDS,
        "chosen_kinds": query["kinds"].split(","),
        "scopes": SCOPES,
    }
    return render_list(
        page,
        "directory/account_state.html",
        "directory/_account_state_found.html",
        context,
        operation="accounts.search",
        query=query,
    )


@console_page(get="accounts.search")
def result(page: PageContext, state: str, form: str) -> HttpResponseBase:
    """All accounts in a state, as a file."""
    if state not in _BY_NAME:
        raise Http404
    query = _query_of(page, _BY_NAME[state][0])
    del query["attributes"]
    return download(page, "accounts.search", form, called=f"accounts-{state}", query=query)


def _query_of(page: PageContext, state: AccountState) -> dict[str, str]:
    query = {
        **USUAL,
        "attributes": "sAMAccountName",
        "state": state.value,
        "kinds": ",".join(page.request.GET.getlist("kinds") or ["user"]),
        **given_in(page),
    }
    if _BY_NAME[state.value][1].days:
        query["days"] = page.query.get("days", _USUAL_DAYS.get(state, "30"))
    return query


urls = [
    path("accounts/", overview, name="account-states"),
    path("accounts/<slug:state>", accounts, name="account-state"),
    *download_paths("accounts/<slug:state>", result, "account-state"),
]
