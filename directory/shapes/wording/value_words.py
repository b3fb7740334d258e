"""The values of an attribute said in words: what they were, and what they are to be."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final, NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from active_directory import GroupType, UserAccountControl
from audit.redact import SECRET
from directory.shapes.wording.names import common_name, place

_NAMED: Final = 5
"""So many values of one attribute are told; of the others their number."""
_LONGEST: Final = 80
_EMPTY: Final = gettext_lazy("(empty)")


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
        place = _("in {place}").format(place=self.place) if self.place else ""
        return ", ".join(filter(None, (self.account_name, place)))


Phrase = tuple[str | Named, ...]


def plain(phrase: Phrase) -> str:
    """A phrase as text, each object by its name alone."""
    return "".join(map(str, phrase))


def filled(text: str, **parts: "str | int | Named | Phrase") -> Phrase:
    """A sentence with its places (`{object}`) filled, in the order in which its language has them."""
    phrase: list[str | Named] = []
    for before, name, _spec, _conversion in Formatter().parse(text):
        if before:
            phrase.append(before)
        if name is not None:
            part = parts[name]
            phrase += part if isinstance(part, tuple) else (part if isinstance(part, Named) else str(part),)
    return tuple(phrase)


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
        if not change.after:
            yield label, (_("removed (not shown)"),)
        else:
            yield label, (_("replaced (not shown)") if change.before else _("set (not shown)"),)
    elif change.attribute.lower() in _OCTETS:
        yield label, (_("removed") if not change.after else _("replaced") if change.before else _("set"),)
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
    return "; ".join(texts) if change.after else _("nothing")


def _is_list(change: ValueChange) -> bool:
    """Whether values that are not listed may stay: of members only those that come or go are known."""
    return change.attribute.lower() in ("member", "memberof")


def _value(values: Sequence[str], name: Name) -> Phrase:
    return (_said(values[0], name),) if values else (str(_EMPTY),)


_NAME = re.compile(r"(?:CN|OU)=.+,DC=[^,]+", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?Z")
_BOOLEANS: Final = {"TRUE": gettext_lazy("yes"), "FALSE": gettext_lazy("no")}


def _said(value: str, name: Name) -> str | Named:
    """A value as people read it."""
    if _NAME.fullmatch(value):
        return name(value)
    if time := _TIME.fullmatch(value):
        return f"{time[1]} {time[2]} UTC"
    if value in _BOOLEANS:
        return str(_BOOLEANS[value])
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


def _listed(values: Sequence[str], name: Name) -> Phrase:
    shown = values if len(values) <= _NAMED else values[: _NAMED - 1]
    phrase: list[str | Named] = []
    for value in shown:
        phrase += [*([", "] if phrase else []), _said(value, name)]
    if len(values) > len(shown):
        return filled(_("{values} and {count} more"), values=tuple(phrase), count=len(values) - len(shown))
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
    said: Phrase = tuple(phrase)
    if len(steps) > len(shown):
        said = filled(_("{values} and {count} more"), values=said, count=len(steps) - len(shown))
    stay = len(before & after) if change.kept is None else change.kept
    if stay:
        text = ngettext("{values}; {count} other stays", "{values}; {count} others stay", stay)
        return filled(text, values=said, count=stay)
    if change.kept is None and _is_list(change) and not (before & after):
        return filled(_("{values}; others, if there are any, stay"), values=said)
    return said


_OCTETS: Final = frozenset(
    (
        *("thumbnailphoto", "jpegphoto", "thumbnaillogo", "photo", "logonhours", "userparameters"),
        *("usercertificate", "usersmimecertificate", "cacertificate"),
        *("msds-keycredentiallink", "msds-allowedtoactonbehalfofotheridentity"),
    )
)
"""Values that nobody reads."""

_OPTIONS: Final[Mapping[UserAccountControl, tuple[Promise, Promise, Promise]]] = {
    UserAccountControl.ACCOUNTDISABLE: (gettext_lazy("Account"), gettext_lazy("Enabled"), gettext_lazy("Disabled")),
    UserAccountControl.PASSWD_NOTREQD: (
        gettext_lazy("Password"),
        gettext_lazy("required"),
        gettext_lazy("not required: it may be empty"),
    ),
    UserAccountControl.DONT_EXPIRE_PASSWD: (
        gettext_lazy("Password"),
        gettext_lazy("expires as the policy says"),
        gettext_lazy("never expires"),
    ),
    UserAccountControl.PASSWD_CANT_CHANGE: (
        gettext_lazy("Password"),
        gettext_lazy("can be changed by its owner"),
        gettext_lazy("cannot be changed by its owner"),
    ),
    UserAccountControl.ENCRYPTED_TEXT_PASSWORD_ALLOWED: (
        gettext_lazy("Password"),
        gettext_lazy("stored as a hash"),
        gettext_lazy("stored so that it can be read"),
    ),
    UserAccountControl.SMARTCARD_REQUIRED: (
        gettext_lazy("Smart card"),
        gettext_lazy("not needed to sign in"),
        gettext_lazy("needed to sign in"),
    ),
    UserAccountControl.TRUSTED_FOR_DELEGATION: (
        gettext_lazy("Delegation to any service"),
        gettext_lazy("not allowed"),
        gettext_lazy("allowed"),
    ),
    UserAccountControl.TRUSTED_TO_AUTHENTICATE_FOR_DELEGATION: (
        gettext_lazy("Protocol transition"),
        gettext_lazy("not allowed"),
        gettext_lazy("allowed"),
    ),
    UserAccountControl.NOT_DELEGATED: (
        gettext_lazy("Delegation of this account"),
        gettext_lazy("allowed"),
        gettext_lazy("not allowed: it is sensitive"),
    ),
    UserAccountControl.DONT_REQUIRE_PREAUTH: (
        gettext_lazy("Kerberos pre-authentication"),
        gettext_lazy("required"),
        gettext_lazy("not required"),
    ),
    UserAccountControl.USE_DES_KEY_ONLY: (
        gettext_lazy("Kerberos encryption"),
        gettext_lazy("as usual"),
        gettext_lazy("DES only"),
    ),
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
        yield label, (_("removed"),)
        return
    before = _number(change.before)
    is_new = before is None
    for bit in UserAccountControl:
        is_set = bool(after & bit)
        if is_new:
            if bit is UserAccountControl.ACCOUNTDISABLE or (is_set and bit not in _MAKING):
                called, unset, as_set = _option(bit)
                yield called, (as_set if is_set else unset,)
        elif before is not None and bool(before & bit) != is_set:
            called, unset, as_set = _option(bit)
            yield called, (f"{unset} → {as_set}" if is_set else f"{as_set} → {unset}",)


def _option(bit: UserAccountControl) -> tuple[str, str, str]:
    called, unset, as_set = _OPTIONS.get(bit, (str(bit.name), _("off"), _("on")))
    return str(called), str(unset), str(as_set)


def _group_type(change: ValueChange, label: str) -> Iterator[Said]:
    before, after = (_group_type_words(values) for values in (change.before, change.after))
    yield label, (f"{before} → {after}" if change.before else after,)


def _group_type_words(values: Sequence[str]) -> str:
    number = _number(values)
    if number is None:
        return str(_EMPTY)
    bits = GroupType.from_directory(number)
    kind = "security" if bits & GroupType.SECURITY_ENABLED else "distribution"
    scopes = {GroupType.GLOBAL: "global", GroupType.DOMAIN_LOCAL: "domainLocal", GroupType.UNIVERSAL: "universal"}
    return group_words({"type": kind, "scope": next((name for bit, name in scopes.items() if bits & bit), "")})


def group_words(group: Mapping[str, Any]) -> str:
    """What kind of group it is, from the `group` of its record: `global security group`."""
    return str(_GROUPS[group["scope"], group["type"]])


_GROUPS: Final = {
    ("global", "security"): gettext_lazy("global security group"),
    ("global", "distribution"): gettext_lazy("global distribution group"),
    ("domainLocal", "security"): gettext_lazy("domain local security group"),
    ("domainLocal", "distribution"): gettext_lazy("domain local distribution group"),
    ("universal", "security"): gettext_lazy("universal security group"),
    ("universal", "distribution"): gettext_lazy("universal distribution group"),
    ("", "security"): gettext_lazy("security group"),
    ("", "distribution"): gettext_lazy("distribution group"),
}


def _password_set(change: ValueChange, label: str) -> Iterator[Said]:
    """0, which is shown as never, asks for a new one; the directory writes the present time for -1."""
    if change.after in (("never",), ("0",)):
        yield "", (_("must change the password at next sign-in"),)
    elif change.before in (("never",), ("0",)):
        yield "", (_("need not change the password at next sign-in any more"),)
    else:
        yield label, (_("counts as changed now"),)


def _lock_out(change: ValueChange, label: str) -> Iterator[Said]:
    if change.after in ((), ("never",), ("0",)):
        yield label, (_("Locked out → Not locked out"),)
    else:
        yield label, (_("Locked out") if change.after else str(_EMPTY),)


def _password(change: ValueChange, label: str) -> Iterator[Said]:
    yield label, (_("a new one (not shown)") if change.before else _("is set (not shown)"),)


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
