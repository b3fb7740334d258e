"""The values of an attribute said in words: what they were, and what they are to be."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from audit.redact import SECRET
from directory.ldap import GroupType, UserAccountControl
from directory.shapes.names import common_name, place

_NAMED: Final = 5
"""So many values of one attribute are told; of the others their number."""
_LONGEST: Final = 80
_EMPTY: Final = "(empty)"


@dataclass(frozen=True, slots=True)
class Named:
    """An object as people call it, with what tells it from others of the same name."""

    name: str
    account_name: str | None = None
    place: str = ""
    id: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def account_and_place(self) -> str:
        """What tells it from others of its name: `ada, in Staff / London`; empty where neither is known."""
        return ", ".join(filter(None, (self.account_name, f"in {self.place}" if self.place else "")))


Phrase = tuple[str | Named, ...]


def plain(phrase: Phrase) -> str:
    """A phrase as text, each object by its name alone."""
    return "".join(map(str, phrase))


def object_named(distinguished_name: str, *, id: str | None = None, account_name: str | None = None) -> Named:
    """An object by its distinguished name."""
    return Named(common_name(distinguished_name), account_name, place(distinguished_name), id)


class ValueChange(NamedTuple):
    """The values of an attribute before and after. `kept` is how many others stay that neither of them lists."""

    attribute: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    kept: int | None = None

    @classmethod
    def read(cls, change: Mapping[str, Any]) -> "ValueChange":
        """From JSON, as a record of the log or a change request has it."""
        before = change.get("before", change.get("current", ()))
        after = change.get("after", change.get("proposed", ()))
        return cls(change["attribute"], tuple(before), tuple(after), change.get("kept"))

    def switch(self) -> bool | None:
        """Of userAccountControl, whether the account is disabled by it (False: enabled), if that is all it does."""
        before, after = (_number(values) for values in (self.before, self.after))
        if before is None or after is None or before ^ after != UserAccountControl.ACCOUNTDISABLE:
            return None
        return bool(after & UserAccountControl.ACCOUNTDISABLE)


def _is_secret(values: Sequence[str]) -> bool:
    return bool(values) and all(value == SECRET for value in values)


Said = tuple[str, Phrase]
"""What a value is called, and what becomes of it."""
Name = Callable[[str], Named]


def say_values(change: ValueChange, name: Name, *, label: str, of_whole: bool = False) -> Iterator[Said]:
    """What becomes of an attribute: mostly one thing, of the account options one for each.

    With `of_whole` the object itself is made or removed, so that there is one side only.
    """
    special = _SPECIAL.get(change.attribute.lower())
    if special is not None:
        yield from special(change, label)
    elif _is_secret(change.after) or _is_secret(change.before):
        yield label, ("removed" if not change.after else "set" if not change.before else "replaced", " (not shown)")
    elif change.attribute.lower() in _OCTETS:
        yield label, ("removed" if not change.after else "set" if not change.before else "replaced",)
    elif of_whole:
        yield label, _listed(change.after or change.before, name)
    elif len(change.before) <= 1 and len(change.after) <= 1 and not change.kept and not _is_list(change):
        yield label, (*_value(change.before, name), " → ", *_value(change.after, name))
    else:
        yield label, _several(change, name)


def given_words(change: ValueChange, name: Name) -> str:
    """What an attribute is given, whatever it was before."""
    given = ValueChange(change.attribute, (), change.after)
    texts = [plain(text) for _, text in say_values(given, name, label="", of_whole=bool(change.after))]
    return "; ".join(texts) if change.after else "nothing"


def _is_list(change: ValueChange) -> bool:
    """Whether values that are not listed may stay: of members only those that come or go are known."""
    return change.attribute.lower() in ("member", "memberof")


def _value(values: Sequence[str], name: Name) -> Phrase:
    return (_said(values[0], name),) if values else (_EMPTY,)


_NAME = re.compile(r"(?:CN|OU)=.+,DC=[^,]+", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?Z")
_BOOLEANS: Final = {"TRUE": "yes", "FALSE": "no"}


def _said(value: str, name: Name) -> str | Named:
    """A value as people read it."""
    if _NAME.fullmatch(value):
        return name(value)
    if time := _TIME.fullmatch(value):
        return f"{time[1]} {time[2]} UTC"
    if value in _BOOLEANS:
        return _BOOLEANS[value]
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def _listed(values: Sequence[str], name: Name) -> Phrase:
    shown = values if len(values) <= _NAMED else values[: _NAMED - 1]
    phrase: list[str | Named] = []
    for value in shown:
        phrase += [*([", "] if phrase else []), _said(value, name)]
    if len(values) > len(shown):
        phrase.append(f" and {len(values) - len(shown)} more")
    return tuple(phrase)


def _several(change: ValueChange, name: Name) -> Phrase:
    """`+ a, + b, − c`, and what stays."""
    before, after = set(change.before), set(change.after)
    steps = [("+ ", value) for value in change.after if value not in before]
    steps += [("− ", value) for value in change.before if value not in after]
    shown = steps if len(steps) <= _NAMED else steps[: _NAMED - 1]
    phrase: list[str | Named] = []
    for sign, value in shown:
        phrase += [f", {sign}" if phrase else sign, _said(value, name)]
    if len(steps) > len(shown):
        phrase.append(f" and {len(steps) - len(shown)} more")
    stay = len(before & after) if change.kept is None else change.kept
    if stay:
        phrase.append(f"; {stay} other{' stays' if stay == 1 else 's stay'}")
    elif change.kept is None and _is_list(change) and not (before & after):
        phrase.append("; others, if there are any, stay")
    return tuple(phrase)


_OCTETS: Final = frozenset(
    (
        *("thumbnailphoto", "jpegphoto", "thumbnaillogo", "photo", "logonhours", "userparameters"),
        *("usercertificate", "usersmimecertificate", "cacertificate"),
        *("msds-keycredentiallink", "msds-allowedtoactonbehalfofotheridentity"),
    )
)
"""Values that nobody reads."""

_OPTIONS: Final[Mapping[UserAccountControl, tuple[str, str, str]]] = {
    UserAccountControl.ACCOUNTDISABLE: ("Account", "Enabled", "Disabled"),
    UserAccountControl.PASSWD_NOTREQD: ("Password", "required", "not required: it may be empty"),
    UserAccountControl.DONT_EXPIRE_PASSWD: ("Password", "expires as the policy says", "never expires"),
    UserAccountControl.PASSWD_CANT_CHANGE: (
        "Password",
        "can be changed by its owner",
        "cannot be changed by its owner",
    ),
    UserAccountControl.ENCRYPTED_TEXT_PASSWORD_ALLOWED: (
        "Password",
        "stored as a hash",
        "stored so that it can be read",
    ),
    UserAccountControl.SMARTCARD_REQUIRED: ("Smart card", "not needed to sign in", "needed to sign in"),
    UserAccountControl.TRUSTED_FOR_DELEGATION: ("Delegation to any service", "not allowed", "allowed"),
    UserAccountControl.TRUSTED_TO_AUTHENTICATE_FOR_DELEGATION: ("Protocol transition", "not allowed", "allowed"),
    UserAccountControl.NOT_DELEGATED: ("Delegation of this account", "allowed", "not allowed: it is sensitive"),
    UserAccountControl.DONT_REQUIRE_PREAUTH: ("Kerberos pre-authentication", "required", "not required"),
    UserAccountControl.USE_DES_KEY_ONLY: ("Kerberos encryption", "as usual", "DES only"),
}
"""What a bit of userAccountControl is called, and what it means unset and set ([MS-ADTS] 2.2.16)."""
_MAKING: Final = frozenset(
    {
        UserAccountControl.NORMAL_ACCOUNT,
        UserAccountControl.WORKSTATION_TRUST_ACCOUNT,
        UserAccountControl.SERVER_TRUST_ACCOUNT,
    }
)
"""What an account is made as; of a new one nothing worth telling."""


def _options(change: ValueChange, label: str) -> Iterator[Said]:
    after = _number(change.after)
    if after is None:
        yield label, ("removed",)
        return
    before = _number(change.before)
    is_new = before is None
    for bit in UserAccountControl:
        is_set = bool(after & bit)
        if is_new:
            if bit is UserAccountControl.ACCOUNTDISABLE or (is_set and bit not in _MAKING):
                called, unset, as_set = _OPTIONS.get(bit, (str(bit.name), "off", "on"))
                yield called, (as_set if is_set else unset,)
        elif before is not None and bool(before & bit) != is_set:
            called, unset, as_set = _OPTIONS.get(bit, (str(bit.name), "off", "on"))
            yield called, (f"{unset} → {as_set}" if is_set else f"{as_set} → {unset}",)


def _group_type(change: ValueChange, label: str) -> Iterator[Said]:
    before, after = (_group_words(values) for values in (change.before, change.after))
    yield label, (f"{before} → {after}" if change.before else after,)


def _group_words(values: Sequence[str]) -> str:
    number = _number(values)
    if number is None:
        return _EMPTY
    bits = GroupType.from_directory(number)
    scope = next(
        (
            words
            for bit, words in (
                (GroupType.GLOBAL, "global"),
                (GroupType.DOMAIN_LOCAL, "domain local"),
                (GroupType.UNIVERSAL, "universal"),
            )
            if bits & bit
        ),
        "",
    )
    return f"{scope} {'security' if bits & GroupType.SECURITY_ENABLED else 'distribution'} group".strip()


def _password_set(change: ValueChange, label: str) -> Iterator[Said]:
    """0, which is shown as never, asks for a new one; the directory writes the present time for -1."""
    if change.after in (("never",), ("0",)):
        yield "", ("must change the password at next sign-in",)
    elif change.before in (("never",), ("0",)):
        yield "", ("need not change the password at next sign-in any more",)
    else:
        yield label, ("counts as changed now",)


def _lock_out(change: ValueChange, label: str) -> Iterator[Said]:
    if change.after in ((), ("never",), ("0",)):
        yield label, ("Locked out → Not locked out",)
    else:
        yield label, (f"{'Locked out' if change.after else _EMPTY}",)


def _password(change: ValueChange, label: str) -> Iterator[Said]:
    yield label, ("a new one" if change.before else "is set", " (not shown)")


_SPECIAL: Final[Mapping[str, Callable[[ValueChange, str], Iterator[Said]]]] = {
    "useraccountcontrol": _options,
    "grouptype": _group_type,
    "pwdlastset": _password_set,
    "lockouttime": _lock_out,
    "unicodepwd": _password,
}


def _number(values: Sequence[str]) -> int | None:
    try:
        return int(values[0]) if len(values) == 1 else None
    except ValueError:  # a placeholder instead of a number
        return None
