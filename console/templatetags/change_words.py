"""Tags and filters that put changes and log records into words."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from console.shared.texts import error_title
from console.shared.wording import dry_run_facts, log_record_facts
from core.text.messages import translated
from directory.shapes.wording.change_words import ChangeWords, describe_change, resource_words
from directory.shapes.wording.labels import operation_words
from directory.shapes.wording.value_words import NamedObject, Phrase, common_name

register = template.Library()
register.filter(translated)
register.filter(error_title)


@register.simple_tag
def record_words(record: Mapping[str, Any]) -> ChangeWords:
    """A log record in words."""
    return describe_change(log_record_facts(record))


@register.simple_tag
def preview_words(operation: str, changes: Sequence[Mapping[str, Any]], about: Mapping[str, Any] | None) -> ChangeWords:
    """What a dry run would change, in words; `about` is the record of the object, None for a creation."""
    return describe_change(dry_run_facts(operation, changes, about))


@register.filter
def phrase_with_links(parts: Phrase) -> SafeString:
    """A phrase in which each object's name links to its page, followed by its account name and place."""
    return format_html_join("", "{}", ((_named(part) if isinstance(part, NamedObject) else part,) for part in parts))


def _named(item: NamedObject) -> SafeString:
    name = format_html("<strong>{}</strong>", item.name)
    if item.id:
        name = format_html('<a href="{}">{}</a>', reverse("console:object", kwargs={"object_id": item.id}), name)
    if not item.account_and_place:
        return name
    return format_html('{} <span class="quiet small">({})</span>', name, item.account_and_place)


@register.filter
def record_as_command(record: Mapping[str, Any]) -> str:
    """A log record as a command: "Reset the password of Ada Lovelace", "Delete a user", "Search users"."""
    if together := record.get("together"):
        # A run or a batch: "Disable 45 users", or for several operations just their number.
        count, operations = together["count"], together["operations"]
        if len(operations) > 1:
            return gettext("{count} changes together").format(count=count)
        return operation_words(operations[0], f"{count} {resource_words(operations[0].partition('.')[0], count)}")
    name = (record["target"] or {}).get("distinguishedName")
    if name and record.get("changes"):
        text = str(describe_change(log_record_facts(record)))
    else:
        text = operation_words(record["operation"], common_name(name))
    return gettext("Revert: {change}").format(change=text) if "reverts" in record else text


@register.simple_tag
def url_query(**parameters: Any) -> str:
    """A URL's query with these parameters, beginning with `?`."""
    return f"?{urlencode(parameters)}"
