"""Objects, their containers, and changes of attribute values, described to people."""

import enum
import re
import tomllib
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from string import Formatter
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from active_directory import (
    DistinguishedName,
    GroupType,
    InstanceType,
    InvalidValue,
    SupportedEncryptionTypes,
    SystemFlags,
    UserAccountControl,
)
from audit.redact import SECRET
from core.shapes import parse_duration
from core.text.times import exact_duration_in_words
from core.text.vocabulary import humanize
from directory.shapes.proposal import UNTIL, AttributeChange
from directory.shapes.sign_in_hours import allowed_hours, hours_in_words
from directory.shapes.value_rules import GROUP_SCOPE_BITS

_MAX_VALUES: Final = 5
"""Values of one attribute that are shown, with the number of the others."""
_MAX_TEXT: Final = 80
_EMPTY: Final = gettext_lazy("(empty)")


def common_name(distinguished_name: str | None) -> str:
    """The value of an object's RDN, by which people know it.

    That of a deleted object ends in a line feed and its objectGUID ([MS-ADTS] 3.1.1.5.5), which are left out.
    """
    name = parse_name(distinguished_name)
    value = name.rdn_value if name is not None and name.rdns else (distinguished_name or "")
    return value.partition("\nDEL:")[0]


def container_path(distinguished_name: str | None) -> str:
    """Where an object is, from the domain down: `corp.example.test / Staff / London`."""
    name = parse_name(distinguished_name)
    if name is None:
        return ""
    above = [rdn[0] for rdn in name.rdns[1:]]
    domain = ".".join(value for attribute, value in above if attribute.upper() == "DC")
    units = [value for attribute, value in reversed(above) if attribute.upper() != "DC"]
    return " / ".join([domain, *units] if domain else units)


@lru_cache(maxsize=4096)  # a page of many changes repeats the same objects and containers
def parse_name(distinguished_name: str | None) -> DistinguishedName | None:
    """A text as a distinguished name; None where it is not one."""
    try:
        return DistinguishedName.parse(distinguished_name or "")
    except InvalidValue:  # a log record has the target as it was requested, which need not be a name
        return None


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object by its common name, with what distinguishes it from others of the same name."""

    name: str
    account_name: str | None = None
    place: str = ""
    id: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def account_and_place(self) -> str:
        """What distinguishes it from others of its name, as `ada, in Staff / London`; empty where neither is known."""
        place = _("in {place}").format(place=self.place) if self.place else ""
        return ", ".join(filter(None, (self.account_name, place)))


Phrase = tuple[str | NamedObject, ...]
"""A text with the objects in it, which pages make links of."""


def plain_text(phrase: Phrase) -> str:
    """A phrase as text, with only the names of objects."""
    return "".join(map(str, phrase))


def fill(text: str, **parts: "str | int | NamedObject | Phrase") -> Phrase:
    """Fill the placeholders of a sentence, such as `{object}`, in the order that its language has them in."""
    phrase: list[str | NamedObject] = []
    for before, name, _spec, _conversion in Formatter().parse(text):
        if before:
            phrase.append(before)
        if name is not None:
            part = parts[name]
            phrase += part if isinstance(part, tuple) else (part if isinstance(part, NamedObject) else str(part),)
    return tuple(phrase)


def join_names(parts: Sequence[str | NamedObject], most: int, more: str, last: str = "") -> Phrase:
    """`a, b`. With more than `most` parts `more` adds the number of the others; otherwise `last` may add the last."""
    shown = parts if len(parts) <= most else parts[: most - 1]
    count = len(parts) - len(shown)
    if last and not count and len(shown) > 1:
        return fill(last, names=_with_commas(shown[:-1]), last=shown[-1])
    names = _with_commas(shown)
    return fill(more, names=names, values=names, count=count) if count else names


def _with_commas(parts: Sequence[str | NamedObject]) -> Phrase:
    return tuple(part for each in parts for part in (", ", each))[1:]


def named_object(distinguished_name: str, *, id: str | None = None, account_name: str | None = None) -> NamedObject:
    """An object by its distinguished name."""
    return NamedObject(common_name(distinguished_name), account_name, container_path(distinguished_name), id)


def _is_secret(values: Sequence[str]) -> bool:
    return bool(values) and all(value == SECRET for value in values)


AttributeText = tuple[str, Phrase]
"""The label of an attribute or option, and what becomes of it."""
Name = Callable[[str], NamedObject]


def describe_values(
    change: AttributeChange, name: Name, *, label: str, of_whole: bool = False
) -> Iterator[AttributeText]:
    """What becomes of an attribute: mostly one text, for account options one for each.

    With `of_whole` the object itself is created or deleted, so that its values are only shown once.
    """
    special = _SPECIAL.get(change.attribute.lower())
    if change.attribute.lower() == "useraccountcontrol":
        yield from _options(change, label)
    elif special is not None:
        yield special(change, label)
    elif _is_secret(change.after) or _is_secret(change.before):
        if not change.after:
            yield label, (_("removed (not shown)"),)
        else:
            yield label, (_("replaced (not shown)") if change.before else _("set (not shown)"),)
    elif change.attribute.lower() in _UNREADABLE:
        yield label, (_("removed") if not change.after else _("replaced") if change.before else _("set"),)
    elif of_whole:
        values = [_value_text(value, name) for value in change.after or change.before]
        yield label, join_names(values, _MAX_VALUES, _("{values} and {count} more"))
    elif len(change.before) <= 1 and len(change.after) <= 1 and not change.kept and not is_list(change):
        yield label, (*_value(change.before, name), " → ", *_value(change.after, name))
    else:
        yield label, _several(change, name)


def disables_account(change: AttributeChange) -> bool | None:
    """Whether a change of userAccountControl disables the account (False: enables it); None if it does other things."""
    before, after = _as_number(change.before), _as_number(change.after)
    if before is None or after is None or before ^ after != UserAccountControl.ACCOUNTDISABLE:
        return None
    return bool(after & UserAccountControl.ACCOUNTDISABLE)


def assigned_words(change: AttributeChange, name: Name) -> str:
    """The new values of an attribute, whatever it had before."""
    given = AttributeChange(change.attribute, (), change.after)
    texts = [plain_text(text) for _, text in describe_values(given, name, label="", of_whole=bool(change.after))]
    return "; ".join(texts) if change.after else _("nothing")


def current_words(change: AttributeChange, name: Name) -> str:
    """The values that an attribute has so far."""
    return assigned_words(replace(change, after=change.before), name) if change.before else str(_EMPTY)


def is_list(change: AttributeChange) -> bool:
    """Whether there may be other values that the change does not list, as it has only added and removed members."""
    return change.attribute.lower() in ("member", "memberof")


def _value(values: Sequence[str], name: Name) -> Phrase:
    return (_value_text(values[0], name),) if values else (str(_EMPTY),)


_NAME = re.compile(r"(?:CN|OU)=.+,DC=[^,]+", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?Z")
_BOOLEANS: Final = {"TRUE": gettext_lazy("yes"), "FALSE": gettext_lazy("no")}


def _value_text(value: str, name: Name) -> str | NamedObject:
    """A value as people read it."""
    if _NAME.fullmatch(value):
        return name(value)
    if time := _TIME.fullmatch(value):
        return f"{time[1]} {time[2]} UTC"
    if value in _BOOLEANS:
        return str(_BOOLEANS[value])
    return value if len(value) <= _MAX_TEXT else f"{value[: _MAX_TEXT - 1]}…"


def _several(change: AttributeChange, name: Name) -> Phrase:
    """`+ a, + b, − c`, and how many others stay."""
    before, after = set(change.before), set(change.after)
    steps = [("+ ", value) for value in change.after if value not in before]
    steps += [("− ", value) for value in change.before if value not in after]
    shown = steps if len(steps) <= _MAX_VALUES else steps[: _MAX_VALUES - 1]
    phrase: list[str | NamedObject] = []
    for sign, value in shown:
        phrase += [f", {sign}" if phrase else sign, _value_text(value, name)]
    said: Phrase = tuple(phrase)
    if len(steps) > len(shown):
        said = fill(_("{values} and {count} more"), values=said, count=len(steps) - len(shown))
    stay = len(before & after) if change.kept is None else change.kept
    if stay:
        text = ngettext("{values}; {count} other stays", "{values}; {count} others stay", stay)
        return fill(text, values=said, count=stay)
    if change.kept is None and is_list(change) and not (before & after):
        return fill(_("{values}; others, if there are any, stay"), values=said)
    return said


_UNREADABLE: Final = frozenset(
    """
    thumbnailphoto jpegphoto thumbnaillogo photo userparameters usercertificate usersmimecertificate cacertificate
    msds-keycredentiallink msds-allowedtoactonbehalfofotheridentity
    """.split()
)
"""Attributes whose values nobody can read, so that they are not shown."""

OPTIONS: Final[Mapping[str, Sequence[str]]] = tomllib.loads(
    Path(__file__).with_name("account_options.toml").read_text("utf-8")
)
"""By name of a bit of userAccountControl."""
_ACCOUNT_TYPES: Final = frozenset(
    {
        UserAccountControl.NORMAL_ACCOUNT,
        UserAccountControl.WORKSTATION_TRUST_ACCOUNT,
        UserAccountControl.SERVER_TRUST_ACCOUNT,
    }
)
"""The types of accounts; that of a new one is clear from its kind."""


def _options(change: AttributeChange, label: str) -> Iterator[AttributeText]:
    after = _as_number(change.after)
    if after is None:
        yield label, (_("removed"),)
        return
    before = _as_number(change.before)
    is_new = before is None
    for bit in UserAccountControl:
        is_set = bool(after & bit)
        if is_new:
            if bit is UserAccountControl.ACCOUNTDISABLE or (is_set and bit not in _ACCOUNT_TYPES):
                called, unset, as_set = _option(bit)
                yield called, (as_set if is_set else unset,)
        elif before is not None and bool(before & bit) != is_set:
            called, unset, as_set = _option(bit)
            yield called, (f"{unset} → {as_set}" if is_set else f"{as_set} → {unset}",)


def _option(bit: UserAccountControl) -> tuple[str, ...]:
    name = str(bit.name)
    return tuple(map(_, OPTIONS[name])) if name in OPTIONS else (name, _("off"), _("on"))


def _group_type(change: AttributeChange, label: str) -> AttributeText:
    before, after = (_group_type_words(values) for values in (change.before, change.after))
    return label, (f"{before} → {after}" if change.before else after,)


def _group_type_words(values: Sequence[str]) -> str:
    number = _as_number(values)
    if number is None:
        return str(_EMPTY)
    bits = GroupType.from_directory(number)
    kind = "security" if bits & GroupType.SECURITY_ENABLED else "distribution"
    return group_words(
        {"type": kind, "scope": next((name for name, bit in GROUP_SCOPE_BITS.items() if bits & bit), "")}
    )


def group_words(group: Mapping[str, Any]) -> str:
    """Scope and type of a group, from the `group` of its record: `global security group`."""
    return _(GROUPS[group["scope"], group["type"]])


GROUPS: Final = {
    (scope, kind): f"{humanize(scope)} {kind} group".strip()
    for scope in ("global", "domainLocal", "universal", "")
    for kind in ("security", "distribution")
}


def _password_set(change: AttributeChange, label: str) -> AttributeText:
    """0, which decodes as never, demands a new password; for -1 the directory writes the present time."""
    if change.after in (("never",), ("0",)):
        return "", (_("must change the password at next sign-in"),)
    if change.before in (("never",), ("0",)):
        return "", (_("need not change the password at next sign-in any more"),)
    return label, (_("counts as changed now"),)


def _lock_out(change: AttributeChange, label: str) -> AttributeText:
    is_over = change.after in ((), ("never",), ("0",))
    return label, (_("Locked out → Not locked out") if is_over else _("Locked out"),)


def _password(change: AttributeChange, label: str) -> AttributeText:
    return label, (_("a new one (not shown)") if change.before else _("is set (not shown)"),)


def _sign_in_hours(change: AttributeChange, label: str) -> AttributeText:
    before, after = (_hours(values) for values in (change.before, change.after))
    return label, (f"{before} → {after}",)


def _hours(values: Sequence[str]) -> str:
    try:
        return hours_in_words(allowed_hours([b64decode(value) for value in values]))
    except ValueError:  # a placeholder instead of octets
        return "; ".join(values)


def _until(change: AttributeChange, label: str) -> AttributeText:
    before, after = (", ".join(map(_end, values)) or str(_EMPTY) for values in (change.before, change.after))
    return label, (f"{before} → {after}",)


def _end(value: str) -> str:
    """An end as people read it: a time, or how long it takes until then."""
    if not value.startswith("P"):
        return str(_value_text(value, named_object))
    return _("for {duration}").format(duration=exact_duration_in_words(int(parse_duration(value).total_seconds())))


_SPECIAL: Final[Mapping[str, Callable[[AttributeChange, str], AttributeText]]] = {
    "grouptype": _group_type,
    "logonhours": _sign_in_hours,
    "pwdlastset": _password_set,
    "lockouttime": _lock_out,
    "unicodepwd": _password,
    UNTIL: _until,
}


def _as_number(values: Sequence[str]) -> int | None:
    try:
        return int(values[0]) if len(values) == 1 else None
    except ValueError:  # a placeholder instead of a number
        return None


_BITS: Mapping[str, Callable[[int], enum.IntFlag]] = {
    "useraccountcontrol": UserAccountControl,
    "grouptype": GroupType.from_directory,
    "systemflags": lambda value: SystemFlags(value & 0xFFFF_FFFF),
    "instancetype": InstanceType,
    "msds-supportedencryptiontypes": SupportedEncryptionTypes,
}


def with_bit_names(attribute: str, value: str) -> str:
    """A value followed by the names of its bits, where the attribute is a set of bits; else the value alone."""
    read = _BITS.get(attribute.lower())
    if read is None:
        return value
    try:
        names = [str(bit.name) for bit in read(int(value))]
    except ValueError:  # a placeholder instead of a number
        return value
    return f"{value} ({', '.join(names)})" if names else value
