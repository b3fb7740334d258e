"""What the gateway says of a field, as a person would say it. Programs read the words of the operations themselves."""

import re
from typing import Final

from django.utils.translation import gettext, gettext_noop

from console.shared.retelling import retold

_SAID: Final[tuple[tuple[str, str], ...]] = (
    (
        r"Field required|String should have at least 1 character|must not be blank|String should match pattern '\\S'",
        gettext_noop("Fill this in."),
    ),
    (r"String should have at least (?P<count>\d+) characters", gettext_noop("Use at least {count} characters.")),
    (r"String should have at most (?P<count>\d+) characters?", gettext_noop("Use at most {count} characters.")),
    (r"List should have at least 1 item.*", gettext_noop("Name at least one.")),
    (r"List should have at most (?P<count>\d+) items?.*", gettext_noop("Name at most {count}.")),
    (r"Input should be greater than or equal to (?P<limit>\S+)", gettext_noop("Choose {limit} or more.")),
    (r"Input should be less than or equal to (?P<limit>\S+)", gettext_noop("Choose {limit} or less.")),
    (r"Input should be a valid (?:integer|number).*|must be a whole number", gettext_noop("Write a whole number.")),
    (r"Input should be (?P<values>'.*)", gettext_noop("Choose one of these: {values}.")),
    (r"must be in the future", gettext_noop("Choose a future date.")),
    (
        r"must be a dashed UUID",
        gettext_noop("This is no id. One has 32 digits and letters from a to f, with dashes between them."),
    ),
    (r"must be a UUID or a distinguished name", gettext_noop("Write a distinguished name or an id.")),
    (r"must be (?:an RFC 3339 timestamp|a time between).*", gettext_noop("Choose a date and a time that there are.")),
    (r"there is no such role", gettext_noop("Choose a role.")),
    (r"there is no such (?P<thing>\w+)", gettext_noop("Choose a {thing}.")),
    (r"is the directory's to change", gettext_noop("This is the directory's: change it there.")),
    (
        r"(?P<address>\S+): is no address",
        gettext_noop("{address} is no address. Write one like 192.0.2.7, or a block like 192.0.2.0/24."),
    ),
    (
        r"(?P<address>\S+): has host bits set",
        gettext_noop("{address} is not the beginning of a block. Did you mean the single address?"),
    ),
    (r"String should match pattern .*", gettext_noop("This is not written as it has to be.")),
    (r"is not known here", gettext_noop("This is not known here.")),
    (
        r"(?P<name>\S+) is no attribute of the directory's schema",
        gettext_noop("The directory has no attribute {name}."),
    ),
)
_RULES: Final = tuple((re.compile(pattern, re.DOTALL), says) for pattern, says in _SAID)


def sentence(detail: str) -> str:
    """What was said of a value, as a sentence: "must be in the future" is "Choose a future date."."""
    for pattern, says in _RULES:
        said = pattern.fullmatch(detail)
        if said is not None:
            return gettext(says).format(**said.groupdict())
    text = retold(detail.strip())
    first = text.partition(" ")[0]
    is_name = first.endswith(":") or first != first.lower()  # of an attribute or a member, which is spelt as it is
    return f"{text[:1] if is_name else text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
