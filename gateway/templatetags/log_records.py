"""Tags and filters for what the operations log tells: a record in words, and links to what else there is like it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import template

from directory.shapes.change_words import say
from gateway.console.shared.change_facts import facts_of_record
from gateway.console.shared.names import common_name
from gateway.templatetags.console import operation_words, words

register = template.Library()


_THINGS = {"people": "a person", "directories": "a directory", "me": "who it is"}
_OF_MANY = ("search", "list", "plan-accounts")
"""Verbs whose resource is told as it is, in the plural."""


@register.filter
def in_words(record: Mapping[str, Any]) -> str:
    """What a record tells of, as a command: "Reset the password of Ada Lovelace", "Delete a user", "Search users"."""
    if together := record.get("together"):
        return _many_in_words(together)
    text = _one_in_words(record)
    return f"Revert: {text}" if "reverts" in record else text


def _one_in_words(record: Mapping[str, Any]) -> str:
    if record.get("changes") and (record["target"] or {}).get("distinguishedName"):
        return str(say(facts_of_record(record)))
    resource, _, action = record["operation"].partition(".")
    name = common_name((record["target"] or {}).get("distinguishedName"))
    text = f"{operation_words(record['operation'])} {name or _thing(resource, action)}"
    return text[:1].upper() + text[1:]


def _many_in_words(together: Mapping[str, Any]) -> str:
    """What a run or a batch did: "Disable 45 users"; of several kinds of changes, only how many there were."""
    count, names = together["count"], together["operations"]
    if len(names) > 1:
        return f"{count} changes together"
    text = f"{operation_words(names[0])} {count} {words(names[0].partition('.')[0])}"
    return text[:1].upper() + text[1:]


def _thing(resource: str, action: str) -> str:
    if action in _OF_MANY:
        return words(resource)
    thing = words(resource).removesuffix("s")
    return _THINGS.get(resource, f"an {thing}" if thing[:1] in "aeio" else f"a {thing}")


@register.simple_tag
def query_of(**parameters: Any) -> str:
    """The query of an address with these parameters; begins with `?`."""
    return f"?{urlencode(parameters)}"
