"""Tags and filters for what the operations log tells: a record in words, and links to what else there is like it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import template
from django.utils.translation import gettext

from console.shared.change_facts import facts_of_record
from console.shared.names import common_name
from console.shared.titles import title_of_code
from directory.shapes.wording.change_words import resource_words, say
from directory.shapes.wording.operation_labels import operation_words

register = template.Library()
register.filter(title_of_code)


@register.filter
def in_words(record: Mapping[str, Any]) -> str:
    """What a record tells of, as a command: "Reset the password of Ada Lovelace", "Delete a user", "Search users"."""
    if together := record.get("together"):
        return _many_in_words(together)
    text = _one_in_words(record)
    return gettext("Revert: {change}").format(change=text) if "reverts" in record else text


def _one_in_words(record: Mapping[str, Any]) -> str:
    if record.get("changes") and (record["target"] or {}).get("distinguishedName"):
        return str(say(facts_of_record(record)))
    return operation_words(record["operation"], common_name((record["target"] or {}).get("distinguishedName")))


def _many_in_words(together: Mapping[str, Any]) -> str:
    """What a run or a batch did: "Disable 45 users"; of several kinds of changes, only how many there were."""
    count, names = together["count"], together["operations"]
    if len(names) > 1:
        return gettext("{count} changes together").format(count=count)
    return operation_words(names[0], f"{count} {resource_words(names[0].partition('.')[0], count)}")


@register.simple_tag
def query_of(**parameters: Any) -> str:
    """The query of an address with these parameters; begins with `?`."""
    return f"?{urlencode(parameters)}"
