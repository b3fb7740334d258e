"""Tags and filters for lists of directory objects: cells, sortable heads, selection boxes, errors in a filter."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.template.defaulttags import querystring
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console.directory.accounts import evidence_in_words
from console.directory.query_parser import PHONE_ATTRIBUTES
from console.directory.selection.actions import ACTIONS, Action, actions_for
from console.templatetags.console import moment
from core.errors import GatewayError
from directory.shapes.wording.change_words import resource_words
from directory.shapes.wording.labels import label_of
from directory.shapes.wording.value_words import common_name, container_path, group_words

register = template.Library()

_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z")
_DN = re.compile(r"(?:CN|OU)=.+,DC=[^,]+", re.IGNORECASE | re.DOTALL)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_MAX_LENGTH = 80


@register.filter
def values_of(record: Mapping[str, Any], attribute: str) -> list[str]:
    """The values of an attribute, whatever its case; sAMAccountName of an account also if it was not asked for."""
    attributes: Mapping[str, list[str]] = record["attributes"]
    wanted = attribute.lower()
    found = next((values for name, values in attributes.items() if name.lower() == wanted), None)
    if found is None and wanted == "samaccountname" and record["account"] is not None:
        found = [record["account"]["samAccountName"] or ""]
    return found or []


_PHONES = frozenset(name.lower() for name in (*PHONE_ATTRIBUTES, "facsimileTelephoneNumber", "otherTelephone", "pager"))


@register.filter
def contact_link(value: str, attribute: str) -> str | SafeString:
    """A telephone number or e-mail address as a link; any other value unchanged.

    The link wraps only where it does not fit on a line.
    """
    if attribute.lower() == "mail" and _EMAIL.fullmatch(value):
        return format_html('<a class="whole" href="mailto:{}">{}</a>', value, value)
    if attribute.lower() in _PHONES and (number := re.sub(r"(?!^)\+|[^\d+]", "", value.replace("(0)", ""))):
        return format_html('<a class="whole" href="tel:{}">{}</a>', number, value)
    return value


@register.filter
def identity(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What tells a person from namesakes: attributes, each with its first value, as far as there is one."""
    names = ("title", "department", "sAMAccountName", "telephoneNumber", "mail")
    return [(name, values[0]) for name in names if (values := values_of(record, name))]


@register.filter
def shown_value(value: str, attribute: str = "") -> str | SafeString:
    """A value for people: a relative time, an object's name, a shortened long text, an address as a link.

    In a narrow column, a value with `@` that is no mail address may wrap after it.
    """
    if (linked := contact_link(value, attribute or "")) is not value:
        return linked
    if _TIMESTAMP.fullmatch(value):
        return moment(value)
    if _DN.fullmatch(value) and container_path(value):
        return format_html('<span title="{}">{}</span>', value, common_name(value))
    if len(value) > _MAX_LENGTH:
        return format_html('<span title="{}">{}…</span>', value[:1000], value[: _MAX_LENGTH - 1])
    if _EMAIL.fullmatch(value):
        return format_html("{}@<wbr>{}", *value.split("@"))
    return value


@register.inclusion_tag("console/_sorted_head.html", takes_context=True)
def sorted_head(context: template.RequestContext, attribute: str, label: str, sort: str) -> dict[str, Any]:
    """A column head that sorts the list, first ascending, then descending."""
    descending = sort.startswith("-")
    is_sorted = sort.removeprefix("-").lower() == attribute.lower()
    wanted = f"-{attribute}" if is_sorted and not descending else attribute
    return {
        "label": label,
        "attribute": "" if attribute == "name" else attribute,
        "address": querystring(context, sort=wanted, cursor=None),
        "direction": ("descending" if descending else "ascending") if is_sorted else "",
    }


register.filter("attribute_label", label_of)
register.filter(resource_words)
register.filter(group_words)
register.simple_tag(evidence_in_words)


@register.simple_tag
def attribute_head(attribute: str) -> SafeString:
    """A column head with the attribute's label, and its LDAP name as the title."""
    return format_html('<th scope="col" title="{}">{}</th>', attribute, label_of(attribute))


@register.simple_tag(takes_context=True)
def selection_actions(context: template.RequestContext) -> list[Action]:
    """The actions that the person may apply to ticked objects; without any, lists have no boxes."""
    page = context.get("page")
    return [] if page is None else actions_for(page)


def _may_select(context: template.RequestContext) -> bool:
    """Whether the person may apply any action to ticked objects. It is called for every row, so it builds no list."""
    page = context.get("page")
    return page is not None and any(page.may(name) for action in ACTIONS.values() for name in action.operations)


@register.simple_tag(takes_context=True)
def selecting_head(context: template.RequestContext) -> str | SafeString:
    """The head of the column of boxes, with a box that ticks all."""
    if not _may_select(context):
        return ""
    return format_html(
        '<th scope="col" class="choose"><input type="checkbox" data-ticks aria-label="{}"></th>', _("Choose all")
    )


@register.simple_tag(takes_context=True)
def selecting_box(context: template.RequestContext, item: Mapping[str, Any], name: str = "chosen") -> str | SafeString:
    """The box that selects an object of a list; `name` is the form field."""
    if not _may_select(context):
        return ""
    return format_html(
        '<td class="choose"><input type="checkbox" name="{}" value="{}" aria-label="{}"></td>',
        name,
        item["id"],
        _("Choose {name}").format(name=item["name"]),
    )


@register.simple_tag
def nth(values: Sequence[str], index: int) -> str:
    """The value at an index; empty beyond the last."""
    return values[index] if index < len(values) else ""


@register.filter
def join_sentence(texts: Sequence[str]) -> str:
    """Join parts of a sentence: `a; b and c`."""
    if len(texts) < 2:
        return "".join(texts)
    return _("{first} and {last}").format(first="; ".join(texts[:-1]), last=texts[-1])


@register.filter
def path_in_domain(distinguished_name: str | None) -> str:
    """The path to an object in its domain: `Staff / London`; for one at its top, the domain."""
    where = container_path(distinguished_name)
    return where.partition(" / ")[2] or where


@register.filter
def adds_condition_to(step: str, number: int) -> bool:
    """Whether the last step added a condition to the group of this number, which then gets the focus."""
    return step == f"add-{number}"


@register.simple_tag
def filter_error(problem: GatewayError | None, text: str | None) -> dict[str, str] | None:
    """A refused filter's text, split at the first wrong character (`at`, empty if the end is missing)."""
    position = None if problem is None else problem.members.get("position")
    if position is None or text is None:
        return None
    return {"before": text[:position], "at": text[position : position + 1], "after": text[position + 1 :]}
