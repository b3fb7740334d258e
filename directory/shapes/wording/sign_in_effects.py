"""What a change of attributes does to an account's ability to sign in: it ends it, it restores it, or both.

Disabling is one of several ways to cut somebody off. Whichever attribute says it, the change needs the permission to
disable or to enable accounts, and is as destructive or as security-relevant (docs/api.md#risk). Direction is judged by
the values before and after, which guard the write. Pure: values in, effects out.

How long the password lives is not judged here: that is what `directory.reset_password` is for, whose holder can shut
an account with a new password too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from active_directory import FILETIME_NEVER, UserAccountControl
from core.operation import Risk
from core.text.messages import message

Values = Sequence[bytes]
ValuesOf = Mapping[str, tuple[Values, Values]]
"""The values of attributes (by their names in lower case) before and after a change."""

LOGON_HOURS_BYTES: Final = 21
"""A bit for each hour of a week ([MS-SAMR] 2.2.6.5)."""


@dataclass(frozen=True, slots=True)
class SignInEffect:
    """An effect, with the permission it needs, its risk, and in the rest of a sentence what has it."""

    permission: str
    risk: Risk
    reason: str


def sign_in_effects(changed: ValuesOf) -> tuple[SignInEffect, ...]:
    """The effects of a change, each once, in the order of its attributes."""
    found = (effect for name, values in changed.items() for effect in _effects_of(name, *values))
    return tuple(dict.fromkeys(found))


def _effects_of(name: str, before: Values, after: Values) -> Iterator[SignInEffect]:
    rule = _RULES.get(name)
    if rule is None or list(before) == list(after):
        return
    ends, restores = rule.judge(before, after)
    if ends:
        yield SignInEffect("directory.disable_account", Risk.DESTRUCTIVE, rule.ends)
    if restores:
        yield SignInEffect("directory.enable_account", Risk.SECURITY, rule.restores)


@dataclass(frozen=True, slots=True)
class _Rule:
    """`judge` tells whether sign-in is ended and whether it is restored; `ends` and `restores` say so."""

    judge: Callable[[Values, Values], tuple[bool, bool]]
    ends: str
    restores: str


def _expiry(before: Values, after: Values) -> tuple[bool, bool]:
    old, new = _moment(before), _moment(after)
    return new < old, new > old


def _moment(values: Values) -> int:
    """A FILETIME; both forms of "never", and no value, are the latest ([MS-ADA1], attribute accountExpires)."""
    moment = int(values[0]) if values else 0
    return max(FILETIME_NEVER) if moment in FILETIME_NEVER else moment


def _hours(before: Values, after: Values) -> tuple[bool, bool]:
    """Without a value every hour is allowed. A value of another length means something to nobody but its author."""
    if any(values and len(values[0]) != LOGON_HOURS_BYTES for values in (before, after)):
        return True, True
    old, new = (
        int.from_bytes(values[0] if values else b"\xff" * LOGON_HOURS_BYTES, "little") for values in (before, after)
    )
    return bool(old & ~new), bool(new & ~old)


def _workstations(before: Values, after: Values) -> tuple[bool, bool]:
    """Names with commas between them; without any every workstation is allowed ([MS-ADA3], userWorkstations)."""
    old, new = _names(before), _names(after)
    if not old or not new:
        return bool(new), bool(old)
    return bool(old - new), bool(new - old)


def _names(values: Values) -> set[str]:
    texts = (value.decode("utf-8", "replace") for value in values)
    return {name.strip().lower() for text in texts for name in text.split(",") if name.strip()}


def _control(before: Values, after: Values) -> tuple[bool, bool]:
    old, new = ((int(values[0]) if values else 0) & _SHUTS_OUT for values in (before, after))
    return bool(new & ~old), bool(old & ~new)


_SHUTS_OUT = UserAccountControl.ACCOUNTDISABLE | UserAccountControl.SMARTCARD_REQUIRED
"""Of a smart card being required the domain controller makes a password that nobody knows ([MS-SAMR] 3.1.1.8.10)."""


def _allowed(before: Values, after: Values) -> tuple[bool, bool]:
    """TRUE allows, FALSE forbids, and nothing leaves it to a policy."""
    old, new = (_PERMISSIVENESS.get(values[0].upper() if values else b"", 0) for values in (before, after))
    return new < old, new > old


_PERMISSIVENESS = {b"FALSE": 0, b"": 1, b"TRUE": 2}


def _confined(before: Values, after: Values) -> tuple[bool, bool]:
    """What a policy allows is written elsewhere: to be under one confines, to be rid of it sets free."""
    return bool(after), bool(before)


def _either(_before: Values, _after: Values) -> tuple[bool, bool]:
    return True, True


_ELSEWHERE: Final = _Rule(
    _workstations,
    message("the account can sign in on fewer workstations"),
    message("the account can sign in on more workstations"),
)
_POLICY: Final = _Rule(
    _confined,
    message("an authentication policy confines where and how the account can sign in"),
    message("the account is no longer confined by an authentication policy"),
)
_REMOTELY: Final = _Rule(
    _allowed, message("the account can no longer sign in remotely"), message("the account can sign in remotely")
)
_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        "accountexpires": _Rule(
            _expiry, message("the account expires earlier"), message("the account expires later or never")
        ),
        "logonhours": _Rule(
            _hours, message("the account can sign in at fewer hours"), message("the account can sign in at more hours")
        ),
        "userworkstations": _ELSEWHERE,
        "otherloginworkstations": _ELSEWHERE,
        "logonworkstation": _Rule(_either, _ELSEWHERE.ends, _ELSEWHERE.restores),  # octets that nothing documents
        "useraccountcontrol": _Rule(
            _control,
            message("the account is disabled or needs a smart card"),
            message("the account is enabled or no longer needs a smart card"),
        ),
        "msds-assignedauthnpolicy": _POLICY,
        "msds-assignedauthnpolicysilo": _POLICY,
        "msnpallowdialin": _REMOTELY,
        "mstsallowlogon": _REMOTELY,
    }
)
SIGN_IN_ATTRIBUTES: Final = frozenset(_RULES)
"""The attributes judged here, in lower case."""
