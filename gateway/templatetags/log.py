"""Tags and filters for what the operations log tells: a record in words, and links to what else there is like it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import template

from gateway.templatetags.console import common_name, operation_words, words

register = template.Library()


@register.filter
def in_words(record: Mapping[str, Any]) -> str:
    """What a record tells of, as a command: "Reset the password of Ada Lovelace", "Search users"."""
    noun = record["operation"].partition(".")[0]
    named = common_name((record["target"] or {}).get("distinguishedName"))
    text = f"{operation_words(record['operation'])} {named or words(noun)}"
    return text[:1].upper() + text[1:]


@register.simple_tag
def query_of(**parameters: Any) -> str:
    """The query of an address with these parameters; begins with `?`."""
    return f"?{urlencode(parameters)}"
