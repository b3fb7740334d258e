"""Rules about values: those that Active Directory would misuse or maintains itself, and their effects on sign-in.

These are checks on values alone; `modifications` checks syntax and cardinality by the schema.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from active_directory import FILETIME_NEVER, GroupType, UserAccountControl
from core.operation import Risk
from core.text.messages import message
from directory.shapes.kinds import ACCOUNT_KINDS, Kind

MAX_NAME = 64
MAX_USER_SAM_ACCOUNT_NAME = 20  # [MS-SAMR] 3.1.1.6; longer ones are accepted by Samba and cannot sign in everywhere
MAX_SAM_ACCOUNT_NAME = 256

MAINTAINED_BY_DIRECTORY = frozenset(
    """
    badpwdcount badpasswordtime lastlogon lastlogoff lastlogontimestamp logoncount objectsid objectguid
    samaccounttype dscorepropagationdata iscriticalsystemobject instancetype
    """.split()
)
"""The SAM maintains these. Windows refuses to write them; Samba does not, so callers could falsify evidence."""

NAMING = frozenset({"name", "cn", "distinguishedname", "objectclass", "objectcategory"})
"""Name and container change by rename and move; the class never changes."""
NAMED_BY = {Kind.ORGANIZATIONAL_UNIT: "ou"}
"""The naming attribute of kinds that are not named by `cn`. On other kinds it is an ordinary attribute."""

SINGLE_VALUED_ON_SAM_OBJECTS = frozenset({"description"})
"""Multi-valued in the schema, single-valued on what the SAM manages ([MS-SAMR] 3.1.1.6)."""
SAM_KINDS = ACCOUNT_KINDS | {Kind.GROUP}

_Bits = UserAccountControl
SETTABLE_CONTROL_BITS = (
    _Bits.SCRIPT
    | _Bits.ACCOUNTDISABLE
    | _Bits.HOMEDIR_REQUIRED
    | _Bits.PASSWD_NOTREQD
    | _Bits.ENCRYPTED_TEXT_PASSWORD_ALLOWED
    | _Bits.DONT_EXPIRE_PASSWD
    | _Bits.SMARTCARD_REQUIRED
    | _Bits.NOT_DELEGATED
    | _Bits.USE_DES_KEY_ONLY
    | _Bits.DONT_REQUIRE_PREAUTH
)
"""The bits a caller may change. The type and delegation bits decide what an account *is*; the directory silently drops
LOCKOUT and PASSWORD_EXPIRED."""

ACCOUNT_TYPE_OF_KIND = {
    Kind.USER: _Bits.NORMAL_ACCOUNT,
    Kind.COMPUTER: _Bits.WORKSTATION_TRUST_ACCOUNT,
    Kind.SERVICE_ACCOUNT: _Bits.WORKSTATION_TRUST_ACCOUNT,
}
"""userAccountControl of a new account, before any option."""

GROUP_SCOPE_BITS = {
    "global": GroupType.GLOBAL,
    "domainLocal": GroupType.DOMAIN_LOCAL,
    "universal": GroupType.UNIVERSAL,
}
ALL_GROUP_SCOPES = GroupType.GLOBAL | GroupType.DOMAIN_LOCAL | GroupType.UNIVERSAL

LOGON_HOURS_BYTES: Final = 21
"""A bit for each hour of a week ([MS-SAMR] 2.2.6.5)."""

_BAD_ACCOUNT_NAME = re.compile(r'["/\\\[\]:;|=,+*?<>@\x00-\x1f]')
_INTEGER = re.compile(r"-?[0-9]{1,10}")


def value_problem(name: str, value: str, *, kind: Kind, current: str | None) -> str | None:
    """Why AD would misuse this value of an attribute (lower-case name), or None; `current` is the present value.

    Octets that are not UTF-8 come as surrogate escapes.
    """
    if name == "useraccountcontrol":
        return _control_problem(value, kind, current)
    if name == "samaccountname":
        return account_name_problem(value, kind)
    rule = _RULES.get(name)
    return None if rule is None else rule(value)


def account_name_problem(value: str, kind: Kind) -> str | None:
    """Why a sAMAccountName is not valid, or None."""
    longest = MAX_USER_SAM_ACCOUNT_NAME if kind is Kind.USER else MAX_SAM_ACCOUNT_NAME
    if not value or len(value) > longest:
        return message("must have 1 to {longest} characters", longest=longest)
    if _BAD_ACCOUNT_NAME.search(value) or value.endswith(".") or not value.strip():
        return message('must not contain " / \\ [ ] : ; | = , + * ? < > @ or end with a period')
    return None


def sanitize_account_name(name: str) -> str:
    """A sAMAccountName made from a name: forbidden characters become `_`, as the domain's own tools do it."""
    return _BAD_ACCOUNT_NAME.sub("_", name).rstrip(".") or "_"


def name_problem(value: str) -> str | None:
    """Why an object's name (the value of its RDN) is not valid, or None."""
    if not value.strip() or len(value) > MAX_NAME or "\0" in value:
        return message("must have 1 to {longest} characters", longest=MAX_NAME)
    return None


def _control_problem(value: str, kind: Kind, current: str | None) -> str | None:
    if not _INTEGER.fullmatch(value):
        return message("must be an integer")
    before = ACCOUNT_TYPE_OF_KIND.get(kind, UserAccountControl(0)) if current is None else int(current)
    # Only changed bits count, so that bits which a domain administrator set on purpose may stay.
    refused = (int(value) ^ before) & ~SETTABLE_CONTROL_BITS
    return message("must not change the bits {bits}", bits=f"0x{refused & 0xFFFFFFFF:08x}") if refused else None


def _group_type_problem(value: str) -> str | None:
    if not _INTEGER.fullmatch(value):
        return message("must be an integer")
    bits = GroupType.from_directory(int(value))
    scope = bits & ALL_GROUP_SCOPES
    if scope not in GROUP_SCOPE_BITS.values() or bits & ~(ALL_GROUP_SCOPES | GroupType.SECURITY_ENABLED):
        return message("must be one scope (2, 4 or 8), with or without the security bit")
    return None


def _logon_hours_problem(value: str) -> str | None:
    is_whole_week = len(value.encode("utf-8", "surrogateescape")) == LOGON_HOURS_BYTES
    wanted = message("must have {count} octets, a bit for each hour", count=LOGON_HOURS_BYTES)
    return None if is_whole_week else wanted


_RULES: dict[str, Callable[[str], str | None]] = {
    "lockouttime": lambda value: None if value == "0" else message("can only be set to 0, which unlocks the account"),
    "pwdlastset": lambda value: (
        None if value in ("0", "-1") else message("can only be 0 (must change) or -1 (changed now)")
    ),
    "accountexpires": lambda value: message("is out of range") if value.startswith("-") else None,
    "grouptype": _group_type_problem,
    "logonhours": _logon_hours_problem,
    "msds-managedpasswordinterval": lambda value: (
        None if _INTEGER.fullmatch(value) and int(value) > 0 else message("must be a number of days, at least 1")
    ),
}
"""Rules that depend neither on the kind of the object nor on the present value."""


Values = Sequence[bytes]
ValuesOf = Mapping[str, tuple[Values, Values]]
"""Raw values before and after a change, by lower-case attribute name."""
_SignInRule = tuple[Callable[[Values, Values], tuple[bool, bool]], str, str]


@dataclass(frozen=True, slots=True)
class SignInEffect:
    """An effect of a change, with the permission it needs, its risk, and a clause that describes it."""

    permission: str
    risk: Risk
    reason: str


def sign_in_effects(changed: ValuesOf) -> tuple[SignInEffect, ...]:
    """The effects of a change on an account's ability to sign in, each once, in the order of its attributes.

    Disabling an account is one of several ways to shut somebody out. Whichever attribute does it, the change needs the
    permission to disable or to enable accounts, and has the same risk (docs/api.md#risk). The values before and after,
    which also guard the write, decide between the two.

    Password lifetime does not count. It belongs to `directory.reset_password`, which can shut out an account by a new
    password anyway.
    """
    found = (effect for name, values in changed.items() for effect in _effects_of(name, *values))
    return tuple(dict.fromkeys(found))


def _effects_of(name: str, before: Values, after: Values) -> Iterator[SignInEffect]:
    rule = SIGN_IN_RULES.get(name)
    if rule is None or list(before) == list(after):
        return
    judge, restricts_reason, widens_reason = rule
    restricts, widens = judge(before, after)
    if restricts:
        yield SignInEffect("directory.disable_account", Risk.DESTRUCTIVE, restricts_reason)
    if widens:
        yield SignInEffect("directory.enable_account", Risk.SECURITY, widens_reason)


def _judge_expiry(before: Values, after: Values) -> tuple[bool, bool]:
    old, new = _moment(before), _moment(after)
    return new < old, new > old


def _moment(values: Values) -> int:
    """A FILETIME; both forms of "never", and no value, count as the latest ([MS-ADA1], attribute accountExpires)."""
    moment = int(values[0]) if values else 0
    return max(FILETIME_NEVER) if moment in FILETIME_NEVER else moment


def _judge_hours(before: Values, after: Values) -> tuple[bool, bool]:
    """Without a value every hour is allowed. A value of the wrong length may do either, so both effects count."""
    if any(values and len(values[0]) != LOGON_HOURS_BYTES for values in (before, after)):
        return True, True
    old, new = (
        int.from_bytes(values[0] if values else b"\xff" * LOGON_HOURS_BYTES, "little") for values in (before, after)
    )
    return bool(old & ~new), bool(new & ~old)


def _judge_workstations(before: Values, after: Values) -> tuple[bool, bool]:
    """Comma-separated names; without any, every workstation is allowed ([MS-ADA3], userWorkstations)."""
    old, new = _workstation_names(before), _workstation_names(after)
    if not old or not new:
        return bool(new), bool(old)
    return bool(old - new), bool(new - old)


def _workstation_names(values: Values) -> set[str]:
    texts = (value.decode("utf-8", "replace") for value in values)
    return {name.strip().lower() for text in texts for name in text.split(",") if name.strip()}


def _judge_control(before: Values, after: Values) -> tuple[bool, bool]:
    old, new = ((int(values[0]) if values else 0) & _SHUT_OUT_BITS for values in (before, after))
    return bool(new & ~old), bool(old & ~new)


_SHUT_OUT_BITS = UserAccountControl.ACCOUNTDISABLE | UserAccountControl.SMARTCARD_REQUIRED
"""Requiring a smart card shuts out, too: the domain controller sets a password nobody knows ([MS-SAMR] 3.1.1.8.10)."""


def _judge_remote_access(before: Values, after: Values) -> tuple[bool, bool]:
    """TRUE allows, FALSE forbids, and no value leaves it to a policy."""
    old, new = (_PERMISSIVENESS.get(values[0].upper() if values else b"", 0) for values in (before, after))
    return new < old, new > old


_PERMISSIVENESS = {b"FALSE": 0, b"": 1, b"TRUE": 2}


_WORKSTATION_RULE: Final[_SignInRule] = (
    _judge_workstations,
    message("the account can sign in on fewer workstations"),
    message("the account can sign in on more workstations"),
)
_AUTHENTICATION_POLICY_RULE: Final = (
    # What the policy allows is not in the change: coming under one restricts, leaving one widens. A swap does both.
    lambda before, after: (bool(after), bool(before)),
    message("an authentication policy confines where and how the account can sign in"),
    message("the account is no longer confined by an authentication policy"),
)
_REMOTE_ACCESS_RULE: Final = (
    _judge_remote_access,
    message("the account can no longer sign in remotely"),
    message("the account can sign in remotely"),
)
SIGN_IN_RULES: Final[Mapping[str, _SignInRule]] = {
    "accountexpires": (
        _judge_expiry,
        message("the account expires earlier"),
        message("the account expires later or never"),
    ),
    "logonhours": (
        _judge_hours,
        message("the account can sign in at fewer hours"),
        message("the account can sign in at more hours"),
    ),
    "userworkstations": _WORKSTATION_RULE,
    "otherloginworkstations": _WORKSTATION_RULE,
    "logonworkstation": (lambda _before, _after: (True, True), *_WORKSTATION_RULE[1:]),  # octets that nothing documents
    "useraccountcontrol": (
        _judge_control,
        message("the account is disabled or needs a smart card"),
        message("the account is enabled or no longer needs a smart card"),
    ),
    "msds-assignedauthnpolicy": _AUTHENTICATION_POLICY_RULE,
    "msds-assignedauthnpolicysilo": _AUTHENTICATION_POLICY_RULE,
    "msnpallowdialin": _REMOTE_ACCESS_RULE,
    "mstsallowlogon": _REMOTE_ACCESS_RULE,
}
"""By lower-case attribute name: a function that tells whether a change restricts and whether it widens sign-in, and the
reasons for both."""
