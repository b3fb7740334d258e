"""What the console says of a field, as a person would say it. Programs read the words of the operations themselves."""

from typing import Final

from django.utils.translation import gettext, gettext_noop

from core.text.messages import Message, translated

_FILL_IN: Final = gettext_noop("Fill this in.")
_NAME_ONE: Final = gettext_noop("Name at least one.")
_NAME_FEWER: Final = gettext_noop("Name at most {max_length}.")
_WHOLE_NUMBER: Final = gettext_noop("Write a whole number.")
_ONE_OF_THESE: Final = gettext_noop("Choose one of these: {expected}.")
_REAL_TIME: Final = gettext_noop("Choose a date and a time that exist.")

ADVICE: Final = {
    "Field required": _FILL_IN,
    "must not be blank": _FILL_IN,
    "String should have at least {min_length} character{expected_plural}": gettext_noop(
        "Use at least {min_length} characters."
    ),
    "String should have at most {max_length} character{expected_plural}": gettext_noop(
        "Use at most {max_length} characters."
    ),
    "{field_type} should have at least {min_length} item{expected_plural} after validation, not {actual_length}": (
        _NAME_ONE
    ),
    "{field_type} should have at most {max_length} item{expected_plural} after validation, not {actual_length}": (
        _NAME_FEWER
    ),
    "Input should be greater than or equal to {ge}": gettext_noop("Choose {ge} or more."),
    "Input should be less than or equal to {le}": gettext_noop("Choose {le} or less."),
    "Input should be a valid integer": _WHOLE_NUMBER,
    "Input should be a valid integer, unable to parse string as an integer": _WHOLE_NUMBER,
    "Input should be a valid number": _WHOLE_NUMBER,
    "must be a whole number": _WHOLE_NUMBER,
    "Input should be {expected}": _ONE_OF_THESE,
    "String should match pattern '{pattern}'": gettext_noop("This is not written as it has to be."),
    "must be in the future": gettext_noop("Choose a future date."),
    "must be a dashed UUID": gettext_noop(
        "This is no id. One has 32 digits and letters from a to f, with dashes between them."
    ),
    "must be a UUID or a distinguished name": gettext_noop("Write a distinguished name or an id."),
    "must be an RFC 3339 timestamp with an offset or Z": _REAL_TIME,
    "must be an RFC 3339 timestamp of a day and time that exist": _REAL_TIME,
    "must be a time between the years 1 and 9999 in UTC": _REAL_TIME,
    "there is no such role": gettext_noop("Choose a role."),
    "there is no such person": gettext_noop("Choose a person."),
    "there is no such directory": gettext_noop("Choose a directory."),
    "is the directory's to change": gettext_noop("This is the directory's: change it there."),
    "{text}: is no address": gettext_noop(
        "{text} is no address. Write one like 192.0.2.7, or a block like 192.0.2.0/24."
    ),
    "{text}: has host bits set": gettext_noop(
        "{text} is not the beginning of a block. Did you mean the single address?"
    ),
    "is not known here": gettext_noop("This is not known here."),
    "{name!r} is no attribute of the directory's schema": gettext_noop("The directory has no attribute {name}."),
    "{name} is no attribute of the directory's schema": gettext_noop("The directory has no attribute {name}."),
}
"""By the template of what operations say of a field: what a person reads, with the same values."""


def field_message(detail: str) -> str:
    """What was said of a value, as a sentence: "must be in the future" is "Choose a future date."."""
    if isinstance(detail, Message) and (advice := _advice(detail)):
        return gettext(advice).format(**detail.values)
    text = translated(detail)
    first = text.partition(" ")[0]
    is_name = first.endswith(":") or first != first.lower()  # of an attribute or a member, which is spelt as it is
    return f"{text[:1] if is_name else text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _advice(detail: Message) -> str | None:
    """What to say instead. A value that is only too short by one character, or has no visible one, is missing."""
    if detail.values.get("min_length") == 1 or detail.values.get("pattern") == r"\S":
        return _FILL_IN if detail.template.startswith("String") else _NAME_ONE
    return ADVICE.get(detail.template)
