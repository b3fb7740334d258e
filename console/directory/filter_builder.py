"""The page that puts a filter together from conditions. Everything it knows is in its address: nothing is kept."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponseBase, QueryDict
from django.urls import path, reverse

from console.directory.conditions import MATCHES, OPERATORS, Condition, Conditions, Group, conditions_of
from console.page_context import PageContext, console_page

_MOST_GROUPS, _MOST_CONDITIONS = 10, 30
_KEPT = ("q", "kind", "base", "scope", "sort", "pageSize", "attributes")
"""The parameters of the search that the filter is for."""
_LEADS_TO = {"search": "console:tree", "save": "console:saved-filter-new"}


@console_page(get="schema.list-attributes")
def build(page: PageContext) -> HttpResponseBase:
    """The conditions of a filter, changed as the button pressed says (`do`), and the filter they make."""
    sent, text = page.request.GET, page.query.get("filter", "")
    has_conditions = "group" in sent
    read = _read(sent) if has_conditions else conditions_of(text) if text else Conditions()
    conditions = read or Conditions()
    step = sent.get("do", "")
    _change(conditions, step)
    made = conditions.filter(_types(page, conditions))
    kept = {name: page.query[name] for name in _KEPT if name in page.query}
    is_right = not any(condition.problem for group in conditions.groups for condition in group.conditions)
    search = urlencode({**kept, **({"filter": str(made)} if made else {})})
    if step in _LEADS_TO and is_right:
        return page.redirect_to(f"{reverse(_LEADS_TO[step])}?{search}")
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
    part = page.request.headers.get("HX-Target") if page.is_partial else None
    template = {"filter-made": "directory/_filter_made.html", "conditions": "directory/_filter_conditions.html"}.get(
        part or ""
    )
    return page.render(template or "directory/search_filter.html", context)


def _read(sent: QueryDict) -> Conditions:
    """The conditions as the form sent them."""
    groups = []
    for number in sent.getlist("group")[:_MOST_GROUPS]:
        rows = zip(
            sent.getlist(f"attribute-{number}"),
            sent.getlist(f"operator-{number}"),
            sent.getlist(f"value-{number}"),
            strict=False,
        )
        conditions = [
            Condition(name, operator if operator in OPERATORS else "is", value) for name, operator, value in rows
        ]
        match = sent.get(f"match-{number}", "all")
        groups.append(Group(match if match in MATCHES else "all", conditions[:_MOST_CONDITIONS]))
    return Conditions("any" if sent.get("match") == "any" else "all", groups)


def _change(conditions: Conditions, step: str) -> None:
    """Add or remove a group or a condition: `add-group`, `add-0`, `remove-group-0`, `remove-0-1`."""
    groups = conditions.groups
    action, *where = step.split("-")
    if where == ["group"] and action == "add" and len(groups) < _MOST_GROUPS:
        groups.append(Group())
        return
    numbers = [int(part) for part in where if part.isdecimal()]
    if not numbers or numbers[0] >= len(groups):
        return
    group = groups[numbers[0]]
    if action == "add" and len(group.conditions) < _MOST_CONDITIONS:
        group.conditions.append(Condition())
    elif action == "remove" and "group" in where:
        groups.remove(group)
    elif action == "remove" and len(numbers) > 1 and numbers[1] < len(group.conditions):
        del group.conditions[numbers[1]]
    if not groups:
        groups.append(Group())


def _types(page: PageContext, conditions: Conditions) -> Mapping[str, str]:
    """What the values of the attributes used are, by their names in lower case; unknown ones are left out."""
    names = {name.lower() for name in conditions.attributes}
    known = page.perform("schema.list-attributes")["items"] if names else []
    return {name: item["type"] for item in known if (name := item["name"].lower()) in names}


urls = [path("directory/filter", build, name="filter-builder")]
