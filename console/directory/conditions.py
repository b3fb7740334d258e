"""Filters as people put them together: groups of conditions, made into an LDAP filter and read back from one.

Pure. Not every filter can be shown so; one that cannot is left to be written.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

from django.utils.translation import gettext, gettext_noop

from active_directory import (
    BIT_AND,
    FILETIME_ATTRIBUTES,
    IN_CHAIN,
    And,
    BitAnd,
    Contains,
    EndsWith,
    Equals,
    Extensible,
    Filter,
    FilterSyntax,
    FilterValue,
    GreaterOrEqual,
    InChain,
    LessOrEqual,
    Not,
    Or,
    Present,
    StartsWith,
    Substrings,
    datetime_to_filetime,
    parse_filter,
)

OPERATORS = {
    "is": gettext_noop("is"),
    "is-not": gettext_noop("is not"),
    "begins": gettext_noop("begins with"),
    "contains": gettext_noop("contains"),
    "ends": gettext_noop("ends with"),
    "at-least": gettext_noop("is at least"),
    "at-most": gettext_noop("is at most"),
    "present": gettext_noop("has a value"),
    "absent": gettext_noop("has no value"),
    "bits": gettext_noop("has the bits"),
    "no-bits": gettext_noop("has not the bits"),
    "nested": gettext_noop("is, or leads to"),
}
"""How a value is compared, by the name a form gives it. `nested` follows links, such as memberOf, through groups."""
MATCHES = {
    "all": gettext_noop("all of these hold"),
    "any": gettext_noop("any of these holds"),
    "none": gettext_noop("none of these holds"),
}

_WITHOUT_VALUE = frozenset({"present", "absent"})
_OPPOSITES = {"is-not": "is", "absent": "present", "no-bits": "bits"}
_MAKE: Mapping[str, Callable[[str, FilterValue], Filter]] = {
    "is": Equals,
    "begins": StartsWith,
    "contains": Contains,
    "ends": EndsWith,
    "at-least": GreaterOrEqual,
    "at-most": LessOrEqual,
    "present": lambda name, _: Present(name),
    "bits": lambda name, value: BitAnd(name, int(value)),
    "nested": lambda name, value: InChain(name, str(value)),
}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].+)?")


@dataclass(slots=True)
class Condition:
    """One row: an attribute, how it is compared, with what. `problem` says why it cannot be."""

    attribute: str = ""
    operator: str = "is"
    value: str = ""
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.attribute.strip() and not self.value.strip()


@dataclass(slots=True)
class Group:
    """Conditions of which all, any or none must hold."""

    match: str = "all"
    conditions: list[Condition] = field(default_factory=lambda: [Condition()])


@dataclass(slots=True)
class Conditions:
    """Groups of which all or any must hold."""

    match: str = "all"
    groups: list[Group] = field(default_factory=lambda: [Group()])

    def filter(self, types: Mapping[str, str]) -> Filter | None:
        """The filter they make, None without any; a condition that cannot be is told of and left out.

        `types` are those of the attributes (`schema.list-attributes`), by their names in lower case.
        """
        made = [one for group in self.groups if (one := _filter_of_group(group, types)) is not None]
        if len(made) < 2:
            return next(iter(made), None)
        return Or(*made) if self.match == "any" else And(*made)

    @property
    def attributes(self) -> list[str]:
        """The names used."""
        names = [condition.attribute.strip() for group in self.groups for condition in group.conditions]
        return list(dict.fromkeys(name for name in names if name))


def _filter_of_group(group: Group, types: Mapping[str, str]) -> Filter | None:
    made = [one for condition in group.conditions if (one := _filter_of(condition, types)) is not None]
    if not made:
        return None
    if group.match == "none":
        return Not(made[0] if len(made) == 1 else Or(*made))
    if len(made) == 1:
        return made[0]
    return Or(*made) if group.match == "any" else And(*made)


def _filter_of(condition: Condition, types: Mapping[str, str]) -> Filter | None:
    condition.problem = ""
    if condition.is_empty:
        return None
    name, text, operator = condition.attribute.strip(), condition.value.strip(), condition.operator
    if not text and operator not in _WITHOUT_VALUE:
        condition.problem = gettext("needs a value")
        return None
    try:
        value = _as_directory_writes_it(name, text, types.get(name.lower(), "text"))
        made = _MAKE[_OPPOSITES.get(operator, operator)](name, value)
    except ValueError as error:
        condition.problem = gettext("needs a number") if operator.endswith("bits") else str(error)
        return None
    return Not(made) if operator in _OPPOSITES else made


def _as_directory_writes_it(name: str, text: str, type_: str) -> FilterValue:
    """Days, times and identifiers as filters name them; what is not written so stays as it is."""
    if type_ == "time" and _DAY.fullmatch(text):
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        is_filetime = name.lower() in FILETIME_ATTRIBUTES
        return str(datetime_to_filetime(moment)) if is_filetime else f"{moment:%Y%m%d%H%M%S}.0Z"
    if type_ == "guid":
        return UUID(text).bytes_le
    return text.upper() if type_ == "boolean" else text


def conditions_of(text: str) -> Conditions | None:
    """The conditions that a filter's text says, None where it says more than they can, or is no filter."""
    try:
        whole = parse_filter(text)
    except FilterSyntax:
        return None
    if isinstance(whole, Or | And):
        match = "any" if isinstance(whole, Or) else "all"
        groups = _groups_of(whole.filters, match)
        if groups is not None:
            return Conditions(match, groups)
    group = _group_of(whole)
    return None if group is None else Conditions("all", [group])


def _groups_of(filters: Iterable[Filter], match: str) -> list[Group] | None:
    """Groups that together match as these filters do: the conditions among them make one group, before the others."""
    single = Group(match, [])
    groups = []
    for one in filters:
        condition = _condition_of(one)
        if condition is not None:
            single.conditions.append(condition)
        elif (group := _group_of(one)) is not None:
            groups.append(group)
        else:
            return None
    return [single, *groups] if single.conditions else groups or None


def _group_of(one: Filter) -> Group | None:
    if (whole := _condition_of(one)) is not None:
        return Group("all", [whole])
    match one:
        case And():
            match, filters = "all", one.filters
        case Or():
            match, filters = "any", one.filters
        case Not(filter=Or() as inner):
            match, filters = "none", inner.filters
        case Not():
            match, filters = "none", (one.filter,)
        case _:
            return None
    conditions = [condition for inner in filters if (condition := _condition_of(inner)) is not None]
    return Group(match, conditions) if conditions and len(conditions) == len(filters) else None


def _condition_of(one: Filter) -> Condition | None:
    """The condition that says the same as one filter without parts, or as the opposite of one."""
    if isinstance(one, Not):
        inner = _condition_of(one.filter)
        opposite = None if inner is None else _NEGATIVES.get(inner.operator)
        return None if inner is None or opposite is None else Condition(inner.attribute, opposite, inner.value)
    known = _comparison_in(one)
    if known is None:
        return None
    attribute, operator, value = known
    if isinstance(value, bytes):
        if len(value) != 16:
            return None
        value = str(UUID(bytes_le=value))
    return Condition(attribute, operator, str(value))


_NEGATIVES = {positive: negative for negative, positive in _OPPOSITES.items()}
_OPERATORS_OF = {Equals: "is", GreaterOrEqual: "at-least", LessOrEqual: "at-most"}
_OPERATORS_OF_RULES = {BIT_AND: "bits", IN_CHAIN: "nested"}


def _comparison_in(one: Filter) -> tuple[str, str, FilterValue] | None:
    """Attribute, operator and value of a filter without parts."""
    match one:
        case Present():
            return one.attribute, "present", ""
        case Equals() | GreaterOrEqual() | LessOrEqual():
            return one.attribute, _OPERATORS_OF[type(one)], one.value
        case Substrings():
            return _substring_in(one)
        case Extensible(attribute=str() as name, rule=str() as rule, dn_attributes=False):
            operator = _OPERATORS_OF_RULES.get(rule)
            return None if operator is None else (name, operator, one.value)
    return None


def _substring_in(one: Substrings) -> tuple[str, str, FilterValue] | None:
    """A beginning, an end or a middle; not several of them."""
    match one.initial, one.middle, one.final:
        case (initial, (), ""):
            return one.attribute, "begins", initial
        case ("", (), final):
            return one.attribute, "ends", final
        case ("", (part,), ""):
            return one.attribute, "contains", part
    return None
