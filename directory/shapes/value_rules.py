"""Values that the schema allows but Active Directory would misuse, and attributes that only the directory maintains.

Pure checks on text, each with its reason; syntax and cardinality are the schema's business (`modifications`).
"""

import re
from collections.abc import Callable

from active_directory import GroupType, UserAccountControl
from core.text.messages import message
from directory.shapes.kinds import ACCOUNT_KINDS, Kind
from directory.shapes.wording.sign_in_effects import LOGON_HOURS_BYTES

MAX_NAME = 64
MAX_USER_SAM_ACCOUNT_NAME = 20  # [MS-SAMR] 3.1.1.6; longer ones are accepted by Samba and cannot sign in everywhere
MAX_SAM_ACCOUNT_NAME = 256

MAINTAINED_BY_DIRECTORY = frozenset(
    {
        *("badpwdcount", "badpasswordtime", "lastlogon", "lastlogoff", "lastlogontimestamp", "logoncount"),
        *("objectsid", "objectguid", "samaccounttype", "dscorepropagationdata", "iscriticalsystemobject"),
        "instancetype",
    }
)
"""The SAM keeps these itself. Windows refuses to have them written; Samba does not, which would falsify evidence."""

NAMING = frozenset({"name", "cn", "distinguishedname", "objectclass", "objectcategory"})
"""An object's name, place and class change by rename, by move, and not at all."""
NAMED_BY = {Kind.ORGANIZATIONAL_UNIT: "ou"}
"""What else names the objects of a kind, and is an attribute like others on all the rest."""

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
"""The bits a caller may change. The type and delegation bits decide what an account *is*; the directory drops LOCKOUT
and PASSWORD_EXPIRED without a word."""

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

_BAD_ACCOUNT_NAME = re.compile(r'["/\\\[\]:;|=,+*?<>@\x00-\x1f]')
_INTEGER = re.compile(r"-?[0-9]{1,10}")


def refuse_value(name: str, value: str, *, kind: Kind, current: str | None) -> str | None:
    """Why AD would misuse this value of an attribute (lower-case name), or None. `current` is the value it has now.

    Octets that are no UTF-8 are escaped as surrogates.
    """
    if name == "useraccountcontrol":
        return _control(value, kind, current)
    if name == "samaccountname":
        return refuse_account_name(value, kind)
    rule = _RULES.get(name)
    return None if rule is None else rule(value)


def refuse_account_name(value: str, kind: Kind) -> str | None:
    """Why this cannot be a sAMAccountName, or None."""
    longest = MAX_USER_SAM_ACCOUNT_NAME if kind is Kind.USER else MAX_SAM_ACCOUNT_NAME
    if not value or len(value) > longest:
        return message("must have 1 to {longest} characters", longest=longest)
    if _BAD_ACCOUNT_NAME.search(value) or value.endswith(".") or not value.strip():
        return message('must not contain " / \\ [ ] : ; | = , + * ? < > @ or end with a period')
    return None


def replace_bad_characters(name: str) -> str:
    """A sAMAccountName made from a name: what it must not contain becomes `_`, as the domain's own tools do it."""
    return _BAD_ACCOUNT_NAME.sub("_", name).rstrip(".") or "_"


def refuse_name(value: str) -> str | None:
    """Why this cannot be an object's name (the value of its RDN), or None."""
    if not value.strip() or len(value) > MAX_NAME or "\0" in value:
        return message("must have 1 to {longest} characters", longest=MAX_NAME)
    return None


def _control(value: str, kind: Kind, current: str | None) -> str | None:
    if not _INTEGER.fullmatch(value):
        return message("must be an integer")
    before = ACCOUNT_TYPE_OF_KIND.get(kind, UserAccountControl(0)) if current is None else int(current)
    # Comparing with what is there keeps bits that an administrator of the domain has set on purpose.
    refused = (int(value) ^ before) & ~SETTABLE_CONTROL_BITS
    return message("must not change the bits {bits}", bits=f"0x{refused & 0xFFFFFFFF:08x}") if refused else None


def _group_type(value: str) -> str | None:
    if not _INTEGER.fullmatch(value):
        return message("must be an integer")
    bits = GroupType.from_directory(int(value))
    scope = bits & ALL_GROUP_SCOPES
    if scope not in GROUP_SCOPE_BITS.values() or bits & ~(ALL_GROUP_SCOPES | GroupType.SECURITY_ENABLED):
        return message("must be one scope (2, 4 or 8), with or without the security bit")
    return None


def _logon_hours(value: str) -> str | None:
    is_whole_week = len(value.encode("utf-8", "surrogateescape")) == LOGON_HOURS_BYTES
    wanted = message("must have {count} octets, a bit for each hour", count=LOGON_HOURS_BYTES)
    return None if is_whole_week else wanted


_RULES: dict[str, Callable[[str], str | None]] = {
    "lockouttime": lambda value: None if value == "0" else message("can only be set to 0, which unlocks the account"),
    "pwdlastset": lambda value: (
        None if value in ("0", "-1") else message("can only be 0 (must change) or -1 (changed now)")
    ),
    "accountexpires": lambda value: message("is out of range") if value.startswith("-") else None,
    "grouptype": _group_type,
    "logonhours": _logon_hours,
    "msds-managedpasswordinterval": lambda value: (
        None if _INTEGER.fullmatch(value) and int(value) > 0 else message("must be a number of days, at least 1")
    ),
}
"""Those that neither the kind of the object nor the present value matters to."""
