"""Tags and filters for lists of directory objects: what stands in a cell, and where a filter stops being one."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.directory.evidence import in_words
from console.directory.quick_search.query_parser import PHONE_ATTRIBUTES
from console.directory.selection.actions import ACTIONS, Action, actions_for
from console.shared.names import common_name, place
from console.templatetags.console import address_with, moment
from core.errors import GatewayError
from directory.shapes.wording.attribute_labels import label_of
from directory.shapes.wording.change_words import resource_words
from directory.shapes.wording.value_words import group_words

register = template.Library()

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z")
_NAME = re.compile(r"(?:CN|OU)=.+,DC=[^,]+", re.IGNORECASE | re.DOTALL)
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_LONGEST = 80


@register.filter
def values_of(record: Mapping[str, Any], attribute: str) -> list[str]:
    """The values of an attribute, however its name is spelled; the account's name is known of every account."""
    attributes: Mapping[str, list[str]] = record["attributes"]
    wanted = attribute.lower()
    found = next((values for name, values in attributes.items() if name.lower() == wanted), None)
    if found is None and wanted == "samaccountname" and record["account"] is not None:
        found = [record["account"]["samAccountName"] or ""]
    return found or []


_PHONES = frozenset(name.lower() for name in (*PHONE_ATTRIBUTES, "facsimileTelephoneNumber", "otherTelephone", "pager"))


@register.filter
def reachable(value: str, attribute: str) -> str | SafeString:
    """A telephone number or an address that can be called or written to; any other value as it is.

    It stays on one line as long as there is room for it on one.
    """
    if attribute.lower() == "mail" and _ADDRESS.fullmatch(value):
        return format_html('<a class="whole" href="mailto:{}">{}</a>', value, value)
    if attribute.lower() in _PHONES and (number := re.sub(r"(?!^)\+|[^\d+]", "", value.replace("(0)", ""))):
        return format_html('<a class="whole" href="tel:{}">{}</a>', number, value)
    return value


@register.filter
def shown_value(value: str, attribute: str = "") -> str | SafeString:
    """A value as people read it: a moment, an object by its name, a long text by its beginning, an address as a link.

    An address that is none to write to may be broken after its `@`, where a column is narrow.
    """
    if (linked := reachable(value, attribute or "")) is not value:
        return linked
    if _TIME.fullmatch(value):
        return moment(value)
    if _NAME.fullmatch(value) and place(value):
        return format_html('<span title="{}">{}</span>', value, common_name(value))
    if len(value) > _LONGEST:
        return format_html('<span title="{}">{}…</span>', value[:1000], value[: _LONGEST - 1])
    if _ADDRESS.fullmatch(value):
        return format_html("{}@<wbr>{}", *value.split("@"))
    return value


@register.inclusion_tag("console/_sorted_head.html", takes_context=True)
def sorted_head(context: template.RequestContext, attribute: str, label: str, sort: str) -> dict[str, Any]:
    """The head of a column, which sorts the page by it: upwards first, then downwards."""
    descending = sort.startswith("-")
    is_sorted = sort.removeprefix("-").lower() == attribute.lower()
    wanted = f"-{attribute}" if is_sorted and not descending else attribute
    return {
        "label": label,
        "attribute": "" if attribute == "name" else attribute,
        "address": address_with(context, sort=wanted, cursor=None),
        "direction": ("descending" if descending else "ascending") if is_sorted else "",
    }


register.filter("attribute_label", label_of)


@register.simple_tag
def attribute_head(attribute: str) -> SafeString:
    """The head of a column as people call it, with the attribute's own name to be seen on it."""
    return format_html('<th scope="col" title="{}">{}</th>', attribute, label_of(attribute))


@register.simple_tag(takes_context=True)
def selection_actions(context: template.RequestContext) -> list[Action]:
    """What the person may do with the objects that they tick in a list; none, and there is nothing to tick."""
    page = context.get("page")
    return [] if page is None else actions_for(page)


def _may_select(context: template.RequestContext) -> bool:
    """Whether anything may be done with what is ticked; asked for every row of a table."""
    page = context.get("page")
    return page is not None and any(page.may(name) for action in ACTIONS.values() for name in action.operations)


@register.simple_tag(takes_context=True)
def selecting_head(context: template.RequestContext) -> str | SafeString:
    """The head of the column of boxes, with one that ticks all of them."""
    if not _may_select(context):
        return ""
    return format_html(
        '<th scope="col" class="choose"><input type="checkbox" data-ticks aria-label="{}"></th>', _("Choose all")
    )


@register.simple_tag(takes_context=True)
def selecting_box(context: template.RequestContext, item: Mapping[str, Any], name: str = "chosen") -> str | SafeString:
    """The box that chooses an object of a list; its `name` tells another button of the form what may be done."""
    if not _may_select(context):
        return ""
    return format_html(
        '<td class="choose"><input type="checkbox" name="{}" value="{}" aria-label="{}"></td>',
        name,
        item["id"],
        _("Choose {name}").format(name=item["name"]),
    )


@register.simple_tag
def nth(values: Sequence[str], place: int) -> str:
    """The value at a place, empty where there are fewer."""
    return values[place] if place < len(values) else ""


register.filter(resource_words)


@register.filter
def listed(texts: Sequence[str]) -> str:
    """Parts of a sentence as one: `a; b and c`."""
    if len(texts) < 2:
        return "".join(texts)
    return _("{first} and {last}").format(first="; ".join(texts[:-1]), last=texts[-1])


register.filter(group_words)


@register.filter
def units(distinguished_name: str | None) -> str:
    """Where an object is in its domain: `Staff / London`; the domain itself for what is directly in it."""
    where = place(distinguished_name)
    return where.partition(" / ")[2] or where


@register.filter
def known_name(distinguished_name: str | None) -> str:
    """What a container is called that may be deleted itself: the directory then adds its id to its name."""
    return common_name(distinguished_name).partition("\n")[0] or "—"


@register.filter
def is_adding(step: str, number: int) -> bool:
    """Whether the step of a filter's conditions adds one to the group of this number: it is to be typed now."""
    return step == f"add-{number}"


@register.simple_tag
def evidence_words(state: str, evidence: Sequence[Mapping[str, Any]], days: str | None) -> list[str]:
    """What tells that an account is in a state."""
    return in_words(state, evidence, int(days) if days else None)


class FilterStop(NamedTuple):
    """A filter's text around the character where it stops being one; `at` is empty at its end."""

    before: str
    at: str
    after: str


@register.simple_tag
def filter_stop(problem: GatewayError | None, text: str | None) -> FilterStop | None:
    """Where a refused filter stops being one, None for any other refusal."""
    position = None if problem is None else problem.members.get("position")
    if position is None or text is None:
        return None
    return FilterStop(text[:position], text[position : position + 1], text[position + 1 :])
