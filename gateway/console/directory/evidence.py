"""The evidence for an account's state in words. What each state is told by is in `directory.queries.account_states`.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from directory.policies.password_policy import RESULTANT_POLICY
from directory.queries.account_states import AccountState
from gateway.console.shared.names import common_name

_Known = Mapping[str, Mapping[str, str | None]]
_Words = Callable[[_Known, int | None], list[str]]

_CONTROL = "userAccountControl"


def in_words(state: str, evidence: Sequence[Mapping[str, Any]], days: int | None) -> list[str]:
    """What the evidence of one account says, the telling first. `days` are those the search was made with."""
    known = {item["attribute"]: item for item in evidence}
    return [text for text in _WORDS[AccountState(state)](known, days) if text]


def _moment(text: str | None) -> str:
    return "never" if text in (None, "never") else f"{text[:10]} {text[11:16]} UTC"


def _value(known: _Known, attribute: str) -> str | None:
    return known[attribute]["value"] if attribute in known else None


def _control(known: _Known) -> str:
    value = _value(known, _CONTROL)
    return "" if value is None else f"{_CONTROL} {value}"


def _flagged(text: str) -> _Words:
    return lambda known, _: [text, _control(known)]


def _policy(known: _Known) -> str:
    """A fine-grained policy is named; without one the domain's holds."""
    policy = _value(known, RESULTANT_POLICY)
    return f"Policy: {common_name(policy)}" if policy else "Policy: the domain's"


def _password_set(known: _Known) -> str:
    return f"Last set {_moment(_value(known, 'pwdLastSet'))}"


def _locked_out(known: _Known, _: int | None) -> list[str]:
    over = known["lockoutTime"]["threshold"]
    rest = "until somebody unlocks it" if over is None else f"lock-outs since {_moment(over)} still hold"
    return [f"Locked out {_moment(_value(known, 'lockoutTime'))}; {rest}", _policy(known)]


def _password_expires(known: _Known, days: int | None) -> list[str]:
    expiry = _moment(_value(known, "msDS-UserPasswordExpiryTimeComputed"))
    told = f"Expired {expiry}" if days is None else f"Expires {expiry}, within {_days(days)}"
    return [told, _password_set(known), _policy(known)]


def _days(days: int) -> str:
    return "a day" if days == 1 else f"{days} days"


def _inactive(known: _Known, days: int | None) -> list[str]:
    moments = [value for item in known.values() if (value := item["value"]) and value != "never"]
    older = f", more than {_days(days)} ago" if days else ""
    return [f"Last signed in {_moment(max(moments, default=None))}{older}"]


_WORDS: Mapping[AccountState, _Words] = {
    AccountState.ENABLED: _flagged("Enabled"),
    AccountState.DISABLED: _flagged("Disabled"),
    AccountState.LOCKED_OUT: _locked_out,
    AccountState.EXPIRED: lambda known, _: [f"Expired {_moment(_value(known, 'accountExpires'))}"],
    AccountState.EXPIRING: lambda known, days: [
        f"Expires {_moment(_value(known, 'accountExpires'))}, within {_days(days or 0)}"
    ],
    AccountState.PASSWORD_EXPIRED: lambda known, _: _password_expires(known, None),
    AccountState.PASSWORD_EXPIRING: _password_expires,
    AccountState.PASSWORD_NEVER_EXPIRES: _flagged("The password never expires"),
    AccountState.PASSWORD_NOT_REQUIRED: _flagged("The password may be empty"),
    AccountState.MUST_CHANGE_PASSWORD: lambda *_: ["Has to set a new password at the next sign-in"],
    AccountState.INACTIVE: _inactive,
    AccountState.NEVER_SIGNED_IN: lambda *_: ["No domain controller asked knows of a sign-in"],
}
