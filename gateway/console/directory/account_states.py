"""Accounts by their state: a page for each of the states, every account with what its state was told by."""

from dataclasses import dataclass

from django.http import Http404, HttpResponseBase
from django.urls import path

from directory.queries.account_states import AccountState
from directory.shapes import kinds
from gateway.console.directory.search import SCOPES
from gateway.console.page_context import PageContext, console_page
from gateway.console.shared.downloads import FORMATS, download
from gateway.console.shared.lists import USUAL, given_in, render_list
from gateway.core.errors import Forbidden

KINDS = {str(kind): kinds.KINDS[kind].many.capitalize() for kind in kinds.Kind if kind in kinds.ACCOUNT_KINDS}


@dataclass(frozen=True, slots=True)
class State:
    """What a page says of a state. `sort` is the attribute that tells most of it; `days` asks for their number."""

    label: str
    meaning: str
    sort: str = ""
    days: str = ""


STATES: dict[str, dict[AccountState, State]] = {
    "Account": {
        AccountState.ENABLED: State("Enabled", "Nothing keeps them from signing in but what the other states say."),
        AccountState.DISABLED: State("Disabled", "Nobody can sign in with them."),
        AccountState.LOCKED_OUT: State(
            "Locked out", "Too many wrong passwords, and the lock-out is not over.", "lockoutTime"
        ),
        AccountState.EXPIRED: State("Expired", "Their day has come.", "accountExpires"),
        AccountState.EXPIRING: State("Expiring", "They expire soon.", "accountExpires", "Within days"),
    },
    "Password": {
        AccountState.PASSWORD_EXPIRED: State(
            "Password expired", "It has to be changed at the next sign-in, because of its age.", "pwdLastSet"
        ),
        AccountState.PASSWORD_EXPIRING: State("Password expiring", "It expires soon.", "pwdLastSet", "Within days"),
        AccountState.PASSWORD_NEVER_EXPIRES: State("Password never expires", "Whatever the policy says."),
        AccountState.PASSWORD_NOT_REQUIRED: State("Password not required", "It may be empty."),
        AccountState.MUST_CHANGE_PASSWORD: State(
            "Must change password", "It was set by somebody else, to be changed at the next sign-in."
        ),
    },
    "Sign-in": {
        AccountState.INACTIVE: State(
            "Inactive", "Nobody has signed in with them for a time.", "lastLogonTimestamp", "For days"
        ),
        AccountState.NEVER_SIGNED_IN: State("Never signed in", "Nobody has ever signed in with them."),
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
    *(path(f"accounts/<slug:state>.{form}", result, {"form": form}, name=f"account-state-{form}") for form in FORMATS),
]
