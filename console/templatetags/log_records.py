"""Tags and filters for what the operations log tells: a record in words, and links to what else there is like it."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from django import template
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.shared.change_facts import facts_of_record
from console.shared.names import common_name
from console.shared.titles import title_of_code
from core.text.vocabulary import action_phrase, capitalized, noun_label
from directory.shapes.wording.change_words import say

register = template.Library()
register.filter(title_of_code)


_THINGS: Final = {
    "users": _("a user"),
    "groups": _("a group"),
    "computers": _("a computer"),
    "organization-units": _("an organization unit"),
    "contacts": _("a contact"),
    "objects": _("an object"),
    "deleted-objects": _("a deleted object"),
    "api-keys": _("an api key"),
    "roles": _("a role"),
    "agents": _("an agent"),
    "agent-clients": _("an agent client"),
    "permission-groups": _("a permission group"),
    "saved-filters": _("a saved filter"),
    "change-requests": _("a change request"),
    "operations": _("an operation"),
    "runs": _("a run"),
    "people": _("a person"),
    "directories": _("a directory"),
    "me": _("who it is"),
}
_OF_MANY: Final = frozenset(
    {
        "search",
        "list",
        "plan-accounts",
        "count-waiting",
        "find-next",
        "list-due",
        "list-inbox",
        "list-own",
        "read-chain",
        "read-forecasts",
        "read-own",
        "read-statistics",
        "read-together",
    }
)
"""Verbs whose resource is told as it is, in the plural."""


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
    resource, _dot, action = record["operation"].partition(".")
    name = common_name((record["target"] or {}).get("distinguishedName"))
    return capitalized(action_phrase(action).format(object=name or _thing(resource, action)))


def _many_in_words(together: Mapping[str, Any]) -> str:
    """What a run or a batch did: "Disable 45 users"; of several kinds of changes, only how many there were."""
    count, names = together["count"], together["operations"]
    if len(names) > 1:
        return gettext("{count} changes together").format(count=count)
    resource, _dot, action = names[0].partition(".")
    return capitalized(action_phrase(action).format(object=f"{count} {noun_label(resource)}"))


def _thing(resource: str, action: str) -> str:
    if action in _OF_MANY:
        return noun_label(resource)
    known = _THINGS.get(resource)
    if known is not None:
        return str(known)
    thing = noun_label(resource).removesuffix("s")
    return f"an {thing}" if thing[:1] in "aeio" else f"a {thing}"


@register.simple_tag
def query_of(**parameters: Any) -> str:
    """The query of an address with these parameters; begins with `?`."""
    return f"?{urlencode(parameters)}"
