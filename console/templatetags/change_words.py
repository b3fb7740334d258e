"""Tags and filters that say changes in words: of a change request, of a record of the log, of a dry run."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from console.shared.change_facts import facts_of_preview, facts_of_record, facts_of_request
from core.text.messages import translated
from directory.shapes.wording.change_words import ChangeWords, say
from directory.shapes.wording.value_words import Named, Phrase, plain

register = template.Library()
register.filter(translated)


@register.simple_tag
def request_words(item: Mapping[str, Any]) -> ChangeWords:
    """A change request in words; takes what the inbox lists and what a review holds."""
    return say(facts_of_request(item))


@register.simple_tag
def record_words(record: Mapping[str, Any]) -> ChangeWords:
    """A record of the log in words."""
    return say(facts_of_record(record))


@register.simple_tag
def preview_words(operation: str, changes: Sequence[Mapping[str, Any]], about: Mapping[str, Any] | None) -> ChangeWords:
    """What a dry run would change, in words; `about` is the record of the object, None for one to be created."""
    return say(facts_of_preview(operation, changes, about))


@register.filter
def phrase(parts: Phrase) -> str:
    """A phrase as text, for a heading or a title."""
    return plain(parts)


@register.filter
def phrase_named(parts: Phrase) -> SafeString:
    """A phrase with, beside the name of each object, its account name and place; its name leads to it."""
    return format_html_join("", "{}", ((_named(part) if isinstance(part, Named) else part,) for part in parts))


def _named(item: Named) -> SafeString:
    name = format_html("<strong>{}</strong>", item.name)
    if item.id:
        name = format_html('<a href="{}">{}</a>', reverse("console:object", kwargs={"object_id": item.id}), name)
    if not item.account_and_place:
        return name
    return format_html('{} <span class="quiet small">({})</span>', name, item.account_and_place)
