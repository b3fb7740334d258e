"""The filter builder: groups of conditions, turned into an LDAP filter (RFC 4515) and parsed back from one.

Filters that conditions cannot express are edited as text. The page keeps its whole state in its URL.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponseBase, QueryDict
from django.utils.translation import gettext

from active_directory import (
    BIT_AND,
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
    parse_filter,
)
from console.page_context import PageContext, page_at, page_url
from core.text.vocabulary import texts_by_name

_MAX_GROUPS, _MAX_CONDITIONS = 10, 30
_SEARCH_PARAMETERS = ("q", "kind", "base", "scope", "sort", "pageSize", "attributes")
"""Parameters of the search that the filter is for; the builder passes them on."""
_DESTINATIONS = {"search": "tree", "save": "saved-filter-new"}
OPERATORS = texts_by_name(
    {
        "is": "is",
        "is-not": "is not",
        "begins": "begins with",
        "contains": "contains",
        "ends": "ends with",
        "at-least": "is at least",
        "at-most": "is at most",
        "present": "has a value",
        "absent": "has no value",
        "bits": "has the bits",
        "no-bits": "does not have the bits",
        "nested": "is, or leads to",
    }
)
"""Comparisons by form value. `nested` follows links such as memberOf transitively (LDAP_MATCHING_RULE_IN_CHAIN)."""
MATCHES = texts_by_name(
    {
        "all": "all of these hold",
        "any": "any of these holds",
        "none": "none of these holds",
    }
)

_WITHOUT_VALUE = frozenset({"present", "absent"})
_OPPOSITES = {"is-not": "is", "absent": "present", "no-bits": "bits"}
_FILTER_FOR: Mapping[str, Callable[[str, FilterValue], Filter]] = {
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
_NEGATIVES = {positive: negative for negative, positive in _OPPOSITES.items()}
_OPERATOR_OF_FILTER = {Equals: "is", GreaterOrEqual: "at-least", LessOrEqual: "at-most"}
_OPERATOR_OF_RULE = {BIT_AND: "bits", IN_CHAIN: "nested"}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].+)?")


@dataclass(slots=True)
class Condition:
    """One row: attribute, operator and value. `problem` says why it makes no filter."""

    attribute: str = ""
    operator: str = "is"
    value: str = ""
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        return not self.attribute.strip() and not self.value.strip()


@dataclass(slots=True)
class Group:
    """Conditions of which all, any or none must match."""

    match: str = "all"
    conditions: list[Condition] = field(default_factory=lambda: [Condition()])


@dataclass(slots=True)
class Conditions:
    """Groups of which all or any must match."""

    match: str = "all"
    groups: list[Group] = field(default_factory=lambda: [Group()])

    def to_filter(self, types: Mapping[str, str]) -> Filter | None:
        """The LDAP filter, or None without conditions. A wrong condition gets a `problem` and is left out.

        `types` are the attributes' types from `schema.list-attributes`, by lower-case name.
        """
        return _combine(self.match, (_group_filter(group, types) for group in self.groups))


@page_at("directory/filter", "filter-builder", get="schema.list-attributes")
def build(page: PageContext) -> HttpResponseBase:
    """Show the conditions, changed by the button pressed (`do`), and the filter they make."""
    sent, text = page.request.GET, page.query["filter"]
    read = _conditions_from_form(sent) if "group" in sent else parse_conditions(text) if text else Conditions()
    conditions = read or Conditions()
    step = sent.get("do", "")
    _apply_step(conditions, step)
    made = conditions.to_filter(_attribute_types(page, conditions))
    kept = page.query_of(*_SEARCH_PARAMETERS)
    is_right = not any(condition.problem for group in conditions.groups for condition in group.conditions)
    search = urlencode({**kept, **({"filter": str(made)} if made else {})})
    if step in _DESTINATIONS and is_right:
        return page.redirect_to(f"{page_url(_DESTINATIONS[step])}?{search}")
    context: dict[str, Any] = {
        "conditions": conditions,
        "made": made,
        "beyond": text if read is None else "",
        "kept": kept,
        "search": search,
        "operators": OPERATORS,
        "matches": MATCHES,
        "step": step,
    }
    parts = {"filter-made": "_filter_made", "conditions": "_filter_conditions"}
    template = parts.get(page.requested_part, "search_filter")
    return page.render(f"directory/{template}.html", context)


def _conditions_from_form(sent: QueryDict) -> Conditions:
    """The conditions in the form."""
    groups = []
    for number in sent.getlist("group")[:_MAX_GROUPS]:
        rows = zip(*(sent.getlist(f"{name}-{number}") for name in ("attribute", "operator", "value")), strict=False)
        conditions = [
            Condition(name, operator if operator in OPERATORS else "is", value) for name, operator, value in rows
        ]
        match = sent.get(f"match-{number}", "all")
        groups.append(Group(match if match in MATCHES else "all", conditions[:_MAX_CONDITIONS]))
    return Conditions("any" if sent.get("match") == "any" else "all", groups)


def _apply_step(conditions: Conditions, step: str) -> None:
    """Add or remove a group or a condition: `add-group`, `add-0`, `remove-group-0`, `remove-0-1`."""
    groups = conditions.groups
    with suppress(ValueError, IndexError):  # no step, or one that no button sends
        match step.split("-"):
            case ["add", "group"] if len(groups) < _MAX_GROUPS:
                groups.append(Group())
            case ["add", group] if len(groups[int(group)].conditions) < _MAX_CONDITIONS:
                groups[int(group)].conditions.append(Condition())
            case ["remove", "group", group]:
                del groups[int(group)]
            case ["remove", group, row]:
                del groups[int(group)].conditions[int(row)]
    if not groups:
        groups.append(Group())


def _attribute_types(page: PageContext, conditions: Conditions) -> Mapping[str, str]:
    """The types of the attributes used, by lower-case name; unknown attributes are left out."""
    used = (condition.attribute.strip().lower() for group in conditions.groups for condition in group.conditions)
    names = set(filter(None, used))
    known = page.perform("schema.list-attributes")["items"] if names else []
    return {name: item["type"] for item in known if (name := item["name"].lower()) in names}


def _combine(match: str, filters: Iterable[Filter | None]) -> Filter | None:
    made = [one for one in filters if one is not None]
    if len(made) < 2:
        return next(iter(made), None)
    return Or(*made) if match == "any" else And(*made)


def _group_filter(group: Group, types: Mapping[str, str]) -> Filter | None:
    is_none = group.match == "none"
    made = _combine("any" if is_none else group.match, [_condition_filter(each, types) for each in group.conditions])
    return Not(made) if is_none and made is not None else made


def _condition_filter(condition: Condition, types: Mapping[str, str]) -> Filter | None:
    condition.problem = ""
    if condition.is_empty:
        return None
    name, text, operator = condition.attribute.strip(), condition.value.strip(), condition.operator
    if not text and operator not in _WITHOUT_VALUE:
        condition.problem = gettext("needs a value")
        return None
    try:
        value = _to_filter_value(text, types.get(name.lower(), "text"))
        made = _FILTER_FOR[_OPPOSITES.get(operator, operator)](name, value)
    except (ValueError, OverflowError) as error:
        condition.problem = gettext("needs a number") if operator.endswith("bits") else str(error)
        return None
    return Not(made) if operator in _OPPOSITES else made


def _to_filter_value(text: str, type_: str) -> FilterValue:
    """Complete dates to times, and convert UUIDs and booleans; searches read other text as typed."""
    if type_ == "time" and _DAY.fullmatch(text):
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
        return f"{moment.isoformat(timespec='seconds')[:19]}Z"
    if type_ == "guid":
        return UUID(text).bytes_le  # the byte order of GUIDs in the directory ([MS-DTYP] section 2.3.4.2)
    return text.upper() if type_ == "boolean" else text


def parse_conditions(text: str) -> Conditions | None:
    """The conditions of a filter's text; None if they cannot express it or if it is no filter."""
    try:
        whole = parse_filter(text)
    except FilterSyntax:
        return None
    if isinstance(whole, Or | And):
        match = "any" if isinstance(whole, Or) else "all"
        if (groups := _parse_groups(whole.filters, match)) is not None:
            return Conditions(match, groups)
    group = _parse_group(whole)
    return None if group is None else Conditions("all", [group])


def _parse_groups(filters: Iterable[Filter], match: str) -> list[Group] | None:
    """Groups equivalent to these filters; plain conditions among them form one group, which comes first."""
    single = Group(match, [])
    groups = []
    for one in filters:
        if (condition := _parse_condition(one)) is not None:
            single.conditions.append(condition)
        elif (group := _parse_group(one)) is not None:
            groups.append(group)
        else:
            return None
    return [single, *groups] if single.conditions else groups or None


def _parse_group(one: Filter) -> Group | None:
    filters: Sequence[Filter]
    match one:
        case And():
            match, filters = "all", one.filters
        case Or():
            match, filters = "any", one.filters
        case Not(filter=Or() as inner):
            match, filters = "none", inner.filters
        case Not() if _parse_condition(one) is None:
            match, filters = "none", (one.filter,)
        case _:
            match, filters = "all", (one,)
    conditions = [condition for inner in filters if (condition := _parse_condition(inner)) is not None]
    return Group(match, conditions) if conditions and len(conditions) == len(filters) else None


def _parse_condition(one: Filter) -> Condition | None:
    """The condition equivalent to a simple filter or to the negation of one; None if there is none."""
    value: FilterValue = ""
    match one:
        case Not():
            inner = _parse_condition(one.filter)
            if inner is None or inner.operator not in _NEGATIVES:
                return None
            return Condition(inner.attribute, _NEGATIVES[inner.operator], inner.value)
        case Present():
            operator = "present"
        case Equals() | GreaterOrEqual() | LessOrEqual():
            operator, value = _OPERATOR_OF_FILTER[type(one)], one.value
        case Substrings(middle=(), final=""):
            operator, value = "begins", one.initial
        case Substrings(initial="", middle=()):
            operator, value = "ends", one.final
        case Substrings(initial="", middle=(part,), final=""):
            operator, value = "contains", part
        case Extensible(attribute=str(), rule=str() as rule, dn_attributes=False) if rule in _OPERATOR_OF_RULE:
            operator, value = _OPERATOR_OF_RULE[rule], one.value
        case _:
            return None
    if isinstance(value, bytes):  # a condition's value is text; 16 bytes can be shown as a UUID
        if len(value) != 16:
            return None
        value = str(UUID(bytes_le=value))
    return Condition(str(one.attribute), operator, str(value))
