"""What the gateway says of a field, as a person would say it. Programs read the words of the operations themselves."""

import re
from collections.abc import Callable
from typing import Final

_SAID: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    (
        r"Field required|String should have at least 1 character|must not be blank|String should match pattern '\\S'",
        "Fill this in.",
    ),
    (r"String should have at least (\d+) characters", r"Use at least \1 characters."),
    (r"String should have at most (\d+) characters?", r"Use at most \1 characters."),
    (r"List should have at least 1 item.*", "Name at least one."),
    (r"List should have at most (\d+) items?.*", r"Name at most \1."),
    (r"Input should be greater than or equal to (\S+)", r"Choose \1 or more."),
    (r"Input should be less than or equal to (\S+)", r"Choose \1 or less."),
    (r"Input should be a valid (integer|number).*|must be a whole number", "Write a whole number."),
    (r"Input should be ('.*)", lambda said: f"Choose one of these: {said[1]}."),
    (r"must be in the future", "Choose a future date."),
    (r"must be a dashed UUID", "This is no id. One has 32 digits and letters from a to f, with dashes between them."),
    (r"must be a UUID or a distinguished name", "Write a distinguished name or an id."),
    (r"must be (?:an RFC 3339 timestamp|a time between).*", "Choose a date and a time that there are."),
    (r"there is no such (\w+)", r"Choose a \1."),
    (r"is the directory's to change", "This is the directory's: change it there."),
    (r"(\S+): is no address", r"\1 is no address. Write one like 192.0.2.7, or a block like 192.0.2.0/24."),
    (r"(\S+): has host bits set", r"\1 is not the beginning of a block. Did you mean the single address?"),
    (r"String should match pattern .*", "This is not written as it has to be."),
    (r"is not known here", "This is not known here."),
    (r"(\S+) is no attribute of the directory's schema", r"The directory has no attribute \1."),
)
_RULES: Final = tuple((re.compile(pattern, re.DOTALL), says) for pattern, says in _SAID)


def sentence(detail: str) -> str:
    """What was said of a value, as a sentence: "must be in the future" is "Choose a future date."."""
    for pattern, says in _RULES:
        said = pattern.fullmatch(detail)
        if said is not None:
            return says(said) if callable(says) else said.expand(says)
    text = detail.strip()
    first = text.partition(" ")[0]
    is_name = first.endswith(":") or first != first.lower()  # of an attribute or a member, which is spelt as it is
    return f"{text[:1] if is_name else text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
