"""The evidence for an account's state in words. What each state is told by is in `directory.queries.account_states`.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext, gettext_noop, ngettext

from console.shared.names import common_name
from directory.policies.password_policy import RESULTANT_POLICY
from directory.queries.account_states import AccountState

_Known = Mapping[str, Mapping[str, str | None]]
_Words = Callable[[_Known, int | None], list[str]]

_CONTROL = "userAccountControl"


def in_words(state: str, evidence: Sequence[Mapping[str, Any]], days: int | None) -> list[str]:
    """What the evidence of one account says, the telling first. `days` are those the search was made with."""
    known = {item["attribute"]: item for item in evidence}
    return [text for text in _WORDS[AccountState(state)](known, days) if text]


def _moment(text: str | None) -> str:
    return gettext("never") if text in (None, "never") else f"{text[:10]} {text[11:16]} UTC"


def _value(known: _Known, attribute: str) -> str | None:
    return known[attribute]["value"] if attribute in known else None


def _control(known: _Known) -> str:
    value = _value(known, _CONTROL)
    return "" if value is None else f"{_CONTROL} {value}"


def _flagged(text: str) -> _Words:
    return lambda known, _: [gettext(text), _control(known)]


def _policy(known: _Known) -> str:
    """A fine-grained policy is named; without one the domain's holds."""
    policy = _value(known, RESULTANT_POLICY)
    return gettext("Policy: {name}").format(name=common_name(policy)) if policy else gettext("Policy: the domain's")


def _password_set(known: _Known) -> str:
    return gettext("Last set {moment}").format(moment=_moment(_value(known, "pwdLastSet")))


def _locked_out(known: _Known, _: int | None) -> list[str]:
    over = known["lockoutTime"]["threshold"]
    since = _moment(_value(known, "lockoutTime"))
    if over is None:
        told = gettext("Locked out {moment}; until somebody unlocks it").format(moment=since)
    else:
        text = gettext("Locked out {moment}; lock-outs since {threshold} still hold")
        told = text.format(moment=since, threshold=_moment(over))
    return [told, _policy(known)]


def _password_expires(known: _Known, days: int | None) -> list[str]:
    expiry = _value(known, "msDS-UserPasswordExpiryTimeComputed")
    return [_expired(expiry) if days is None else _expires(expiry, days), _password_set(known), _policy(known)]


def _expired(moment: str | None) -> str:
    return gettext("Expired {moment}").format(moment=_moment(moment))


def _expires(moment: str | None, days: int) -> str:
    text = ngettext("Expires {moment}, within a day", "Expires {moment}, within {days} days", days)
    return text.format(moment=_moment(moment), days=days)


def _inactive(known: _Known, days: int | None) -> list[str]:
    moments = [value for item in known.values() if (value := item["value"]) and value != "never"]
    last = _moment(max(moments, default=None))
    if not days:
        return [gettext("Last signed in {moment}").format(moment=last)]
    text = ngettext(
        "Last signed in {moment}, more than a day ago", "Last signed in {moment}, more than {days} days ago", days
    )
    return [text.format(moment=last, days=days)]


_WORDS: Mapping[AccountState, _Words] = {
    AccountState.ENABLED: _flagged(gettext_noop("Enabled")),
    AccountState.DISABLED: _flagged(gettext_noop("Disabled")),
    AccountState.LOCKED_OUT: _locked_out,
    AccountState.EXPIRED: lambda known, _: [_expired(_value(known, "accountExpires"))],
    AccountState.EXPIRING: lambda known, days: [_expires(_value(known, "accountExpires"), days or 0)],
    AccountState.PASSWORD_EXPIRED: lambda known, _: _password_expires(known, None),
    AccountState.PASSWORD_EXPIRING: _password_expires,
    AccountState.PASSWORD_NEVER_EXPIRES: _flagged(gettext_noop("The password never expires")),
    AccountState.PASSWORD_NOT_REQUIRED: _flagged(gettext_noop("The password may be empty")),
    AccountState.MUST_CHANGE_PASSWORD: lambda *_: [gettext("Has to set a new password at the next sign-in")],
    AccountState.INACTIVE: _inactive,
    AccountState.NEVER_SIGNED_IN: lambda *_: [gettext("No domain controller asked knows of a sign-in")],
}
