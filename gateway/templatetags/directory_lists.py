"""Tags and filters for lists of directory objects: what stands in a cell, and where a filter stops being one."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from directory.shapes.kinds import RESOURCES
from gateway.console.directory.evidence import in_words
from gateway.console.shared.names import common_name
from gateway.core.errors import GatewayError
from gateway.templatetags.console import address_with, moment, place

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


@register.filter
def shown_value(value: str) -> str | SafeString:
    """A value as people read it: a moment, an object by its name, a long text by its beginning.

    An address may be broken after its `@`, where a column is narrow.
    """
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
        "address": address_with(context, sort=wanted, cursor=None),
        "direction": ("descending" if descending else "ascending") if is_sorted else "",
    }


@register.filter
def resource_words(resource: str, count: int) -> str:
    """What the objects under a path are called, so many of them."""
    declared = RESOURCES[resource if resource in RESOURCES else "objects"].declared
    return declared.singular if count == 1 else declared.many


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
