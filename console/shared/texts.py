"""Texts of the console that belong to no page: messages about fields, titles of errors, and what its scripts say."""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Final

from django.apps import apps
from django.utils.translation import gettext

from approvals.models import Status
from approvals.supervision import REVIEWED
from audit.model_changes.descriptions import audited_models
from audit.models import Outcome
from core.errors import error_classes
from core.operation import Effect, operations
from core.text.messages import Message, translated
from core.text.vocabulary import DECLARED_TEXTS, WORDS, humanize
from directory.models.runs import AccountStatus, RunState
from directory.shapes.wording.labels import LABELS
from directory.shapes.wording.value_words import GROUPS, OPTIONS
from keys.permission_catalogue import MEANINGS

_FILL_IN: Final = "Fill this in."
_NAME_ONE: Final = "Name at least one."
_NAME_FEWER: Final = "Name at most {max_length}."
_WHOLE_NUMBER: Final = "Write a whole number."
_ONE_OF_THESE: Final = "Choose one of these: {expected}."
_REAL_TIME: Final = "Choose a date and a time that exist."

ADVICE: Final = {
    "Field required": _FILL_IN,
    "must not be blank": _FILL_IN,
    "String should have at least {min_length} character{expected_plural}": "Use at least {min_length} characters.",
    "String should have at most {max_length} character{expected_plural}": "Use at most {max_length} characters.",
    "{field_type} should have at least {min_length} item{expected_plural} after validation, not {actual_length}": (
        _NAME_ONE
    ),
    "{field_type} should have at most {max_length} item{expected_plural} after validation, not {actual_length}": (
        _NAME_FEWER
    ),
    "Input should be greater than or equal to {ge}": "Choose {ge} or more.",
    "Input should be less than or equal to {le}": "Choose {le} or less.",
    "Input should be a valid integer": _WHOLE_NUMBER,
    "Input should be a valid integer, unable to parse string as an integer": _WHOLE_NUMBER,
    "Input should be a valid number": _WHOLE_NUMBER,
    "must be a whole number": _WHOLE_NUMBER,
    "Input should be {expected}": _ONE_OF_THESE,
    "String should match pattern '{pattern}'": "This does not have the required form.",
    "must be in the future": "Choose a future date.",
    "must be a dashed UUID": (
        "This is not an id. An id has 32 digits and letters from a to f, with dashes between them."
    ),
    "must be a UUID or a distinguished name": "Write a distinguished name or an id.",
    "must be an RFC 3339 timestamp with an offset or Z": _REAL_TIME,
    "must be an RFC 3339 timestamp of a day and time that exist": _REAL_TIME,
    "must be a time between the years 1 and 9999 in UTC": _REAL_TIME,
    "there is no such role": "Choose a role.",
    "there is no such person": "Choose a person.",
    "there is no such directory": "Choose a directory.",
    "is the directory's to change": "This is the directory's: change it there.",
    "{text}: is no address": "{text} is not an address. Write one like 192.0.2.7, or a block like 192.0.2.0/24.",
    "{text}: has host bits set": "{text} is not the beginning of a block. Did you mean the single address?",
    "is not known here": "This is not known here.",
    "{name!r} is no attribute of the directory's schema": "The directory has no attribute {name}.",
    "{name} is no attribute of the directory's schema": "The directory has no attribute {name}.",
}
"""What a form says in place of an operation's message about a field, by that message's template."""


def field_message(detail: str) -> str:
    """A message about a field as a sentence: "must be in the future" becomes "Choose a future date."."""
    if isinstance(detail, Message) and (advice := _advice(detail)):
        return gettext(advice).format(**detail.values)
    text = translated(detail)
    first = text.partition(" ")[0]
    is_name = first.endswith(":") or first != first.lower()  # an attribute or member keeps its spelling
    return f"{text[:1] if is_name else text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _advice(detail: Message) -> str | None:
    """The sentence to show instead. A value with a minimum of one (visible) character was left empty."""
    if detail.values.get("min_length") == 1 or detail.values.get("pattern") == r"\S":
        return _FILL_IN if detail.template.startswith("String") else _NAME_ONE
    return ADVICE.get(detail.template)


def error_title(code: str | None) -> str:
    """The title of an error by its code, in the reader's language; empty for an unknown code."""
    return translated(next((error.title for error in error_classes() if error.code == code), ""))


def registered_texts() -> Iterator[str]:
    """All declared texts to translate: of errors, operations, permissions and attributes, and single words."""
    for module in ("gateway.urls", "gateway.tasks"):
        import_module(module)  # importing them makes all declarations
    for error in error_classes():
        yield error.title
    for operation in operations():
        if not isinstance(operation.label, Message):
            yield operation.label
        if operation.effect is not Effect.READ:
            yield operation.summary
    for meaning in MEANINGS.values():
        yield from filter(None, (meaning.group, meaning.title, meaning.text, meaning.danger))
    yield from (*LABELS.values(), *GROUPS.values(), *chain.from_iterable(OPTIONS.values()), *WORDS)
    yield from (*DECLARED_TEXTS, *ADVICE.values(), *script_texts())
    yield from _words_for_the_log()
    for review in REVIEWED.values():
        if review.verdict in ("security", "unwritable"):
            yield review.reason


def _words_for_the_log() -> Iterator[str]:
    """The words for states, actions and members of our own tables, made of their names."""
    states: list[str] = [*Status.values, *Outcome.values, *RunState.values, *AccountStatus.values]
    actions = [operation.action for operation in operations() if operation.effect is Effect.CHANGE]
    members = chain.from_iterable(table.shown_members for table in audited_models())
    for name in (*states, *actions, *members):
        if name != "unknown" and name not in LABELS:  # `translate_label` has another word for an unknown outcome
            yield humanize(name)


_SAID: Final = re.compile(r'\bsay\(\s*"([^"]+)"')


@cache
def script_texts() -> frozenset[str]:
    """What the scripts of the pages say with `say("…")`."""
    folders = (Path(apps.get_app_config(name).path, "static") for name in ("gateway", "console"))
    scripts = (script for folder in folders for script in folder.rglob("*.js"))
    return frozenset(text for script in scripts for text in _SAID.findall(script.read_text("utf-8")))


def script_translations() -> dict[str, str]:
    """The scripts' texts in the active language by the English text; empty in English."""
    return {text: said for text in script_texts() if (said := gettext(text)) != text}
