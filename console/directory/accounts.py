"""Accounts by state, with the evidence in words, and service accounts.

`directory.queries.account_searches` defines the states by their attributes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.http import Http404, HttpResponseBase
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.directory.browse import SCOPES
from console.page_context import PageContext, page_at
from console.shared.lists import DEFAULT_QUERY, downloads_at, render_list, search_parameters
from core.errors import Forbidden
from core.text.vocabulary import declare_texts, texts_by_name
from directory.policies.password_policy import RESULTANT_POLICY
from directory.queries.account_searches import AccountState
from directory.shapes import kinds
from directory.shapes.wording.value_words import common_name

_KINDS = {str(kind): kinds.KINDS[kind].many for kind in kinds.Kind if kind in kinds.ACCOUNT_KINDS}


class StateDescription(NamedTuple):
    """The texts of a state, in English; templates translate them.

    `sort` is the attribute by which its list is best sorted. `days` is the label of the field for the number of days.
    """

    label: str
    meaning: str
    sort: str = ""
    days: str = ""


STATE_GROUPS: dict[str, dict[AccountState, StateDescription]] = {
    "Account": {
        AccountState.ENABLED: StateDescription("Enabled", "They can sign in, unless another state prevents it."),
        AccountState.DISABLED: StateDescription("Disabled", "Nobody can sign in with them."),
        AccountState.LOCKED_OUT: StateDescription(
            "Locked out",
            "Too many wrong passwords, and the lock-out is not over.",
            "lockoutTime",
        ),
        AccountState.EXPIRED: StateDescription("Expired", "Past expiry date.", "accountExpires"),
        AccountState.EXPIRING: StateDescription("Expiring", "They expire soon.", "accountExpires", "Within days"),
    },
    "Password": {
        AccountState.PASSWORD_EXPIRED: StateDescription(
            "Password expired",
            "It has to be changed at the next sign-in, because of its age.",
            "pwdLastSet",
        ),
        AccountState.PASSWORD_EXPIRING: StateDescription(
            "Password expiring",
            "It expires soon.",
            "pwdLastSet",
            "Within days",
        ),
        AccountState.PASSWORD_NEVER_EXPIRES: StateDescription("Password never expires", "Whatever the policy says."),
        AccountState.PASSWORD_NOT_REQUIRED: StateDescription("Password not required", "It may be empty."),
        AccountState.MUST_CHANGE_PASSWORD: StateDescription(
            "Must change password",
            "It was set by somebody else, to be changed at the next sign-in.",
        ),
    },
    "Sign-in": {
        AccountState.INACTIVE: StateDescription(
            "Inactive",
            "Nobody has signed in with them for some time.",
            "lastLogonTimestamp",
            "For days",
        ),
        AccountState.NEVER_SIGNED_IN: StateDescription("Never signed in", "Nobody has ever signed in with them."),
    },
}
_ORDERS = {AccountState.LOCKED_OUT: {"sort": "-lockoutTime"}}
"""The order of a list that is not by name: who was locked out last is on the telephone now."""
_STATES_BY_NAME = {state.value: (state, shown) for group in STATE_GROUPS.values() for state, shown in group.items()}
declare_texts(STATE_GROUPS)
declare_texts(text for _state, shown in _STATES_BY_NAME.values() for text in (shown.label, shown.meaning, shown.days))
_FLAG_LABELS = texts_by_name(
    {
        AccountState.ENABLED: "Enabled",
        AccountState.DISABLED: "Disabled",
        AccountState.PASSWORD_NEVER_EXPIRES: "The password never expires",
        AccountState.PASSWORD_NOT_REQUIRED: "The password may be empty",
    }
)
"""The evidence of states that are bits of userAccountControl ([MS-ADTS] section 2.2.16)."""
_SERVICE_ACCOUNT_TYPES = texts_by_name(
    {
        "managed": "Managed",
        "group-managed": "Group-managed",
        "delegated-managed": "Delegated managed",
        "user-with-spn": "Users with a service principal name",
    }
)
"""The types of service accounts."""


@page_at("accounts/", "account-states")
def overview(page: PageContext) -> HttpResponseBase:
    """All states, to choose one; raises Forbidden for people who may not search accounts."""
    if not page.may("accounts.search"):
        raise Forbidden
    return page.render("directory/account_states.html", {"state_groups": STATE_GROUPS})


@page_at("accounts/<slug:state>", "account-state", get="accounts.search")
@downloads_at("accounts/<slug:state>", "account-state", get="accounts.search")
def accounts(page: PageContext, state: str, file_format: str = "") -> HttpResponseBase:
    """The accounts in a state. They load after the page, since finding them takes a large domain a while."""
    if state not in _STATES_BY_NAME:
        raise Http404
    name, shown = _STATES_BY_NAME[state]
    chosen_kinds = ",".join(page.request.GET.getlist("kinds") or ["user"])
    given = {"attributes": "sAMAccountName", "state": state, "kinds": chosen_kinds, **search_parameters(page)}
    if shown.days:
        given["days"] = page.query.get("days", "90" if name is AccountState.INACTIVE else "30")
    context = {
        "state_groups": STATE_GROUPS,
        "state": state,
        "shown": shown,
        "days": given.get("days"),
        "kinds": _KINDS,
        "chosen_kinds": chosen_kinds.split(","),
        "scopes": SCOPES,
    }
    return render_list(
        page,
        "directory/account_state.html",
        "directory/_account_state_found.html",
        context,
        operation="accounts.search",
        query={**DEFAULT_QUERY, **_ORDERS.get(name, {}), **given},
        file_format=file_format,
        file_name=f"accounts-{state}",
    )


def evidence_in_words(state: str, evidence: Sequence[Mapping[str, Any]], days: str | None) -> list[str]:
    """The evidence of one account in words, the most telling first; `days` is the search's parameter."""
    values, count = {item["attribute"]: item["value"] for item in evidence}, int(days or 0)
    # msDS-ResultantPSO names a fine-grained policy; without one the domain's policy applies.
    named = values.get(RESULTANT_POLICY)
    policy = _("Policy: {name}").format(name=common_name(named)) if named else _("Policy: the domain's")

    def told(text: str, attribute: str) -> str:
        return text.format(moment=_format_minute(values.get(attribute)), days=count)

    password = (told(_("Last set {moment}"), "pwdLastSet"), policy)
    computed_expiry = "msDS-UserPasswordExpiryTimeComputed"
    expired = _("Expired {moment}")
    expires = ngettext("Expires {moment}, within a day", "Expires {moment}, within {days} days", count)
    match AccountState(state):
        case AccountState.LOCKED_OUT:
            over = next(item["threshold"] for item in evidence if item["attribute"] == "lockoutTime")
            text = _("Locked out {moment}; until somebody unlocks it")
            if over is not None:
                text = _("Locked out {moment}; lock-outs since {threshold} still hold")
            words = [text.format(moment=_format_minute(values["lockoutTime"]), threshold=_format_minute(over)), policy]
        case AccountState.EXPIRED:
            words = [told(expired, "accountExpires")]
        case AccountState.EXPIRING:
            words = [told(expires, "accountExpires")]
        case AccountState.PASSWORD_EXPIRED:
            words = [told(expired, computed_expiry), *password]
        case AccountState.PASSWORD_EXPIRING:
            words = [told(expires, computed_expiry), *password]
        case AccountState.MUST_CHANGE_PASSWORD:
            words = [_("Has to set a new password at the next sign-in")]
        case AccountState.INACTIVE:
            last = max((value for value in values.values() if value and value != "never"), default=None)
            text = _("Last signed in {moment}")
            if count:
                text = ngettext(
                    "Last signed in {moment}, more than a day ago",
                    "Last signed in {moment}, more than {days} days ago",
                    count,
                )
            words = [text.format(moment=_format_minute(last), days=count)]
        case AccountState.NEVER_SIGNED_IN:
            words = [_("No domain controller asked knows of a sign-in")]
        case flag:
            control = values.get("userAccountControl")
            words = [_(_FLAG_LABELS[flag]), *([] if control is None else [f"userAccountControl {control}"])]
    return words


def _format_minute(text: str | None) -> str:
    return _("never") if text in (None, "never") else f"{text[:10]} {text[11:16]} UTC"


@page_at("service-accounts/", "service-accounts", get="service-accounts.search")
@downloads_at("service-accounts/result", "service-accounts", get="service-accounts.search")
def service_accounts(page: PageContext, file_format: str = "") -> HttpResponseBase:
    """Service accounts by type, with who may use them and where."""
    chosen_types = ",".join(page.request.GET.getlist("types") or _SERVICE_ACCOUNT_TYPES)
    return render_list(
        page,
        "directory/service_accounts.html",
        "directory/_service_accounts_found.html",
        {"types": _SERVICE_ACCOUNT_TYPES, "chosen_types": chosen_types.split(",")},
        operation="service-accounts.search",
        query={**DEFAULT_QUERY, "attributes": "sAMAccountName", "types": chosen_types, **search_parameters(page)},
        file_format=file_format,
        file_name="service-accounts",
    )
