"""Every sentence of the gateway, with values or without, can be said in English and in German."""

import json
import subprocess
import sys
from collections.abc import Iterator
from string import Formatter

import pytest
from django.utils.translation import override

from console.shared.texts import ADVICE, field_message, registered_texts
from core.errors import error_classes
from core.shapes import Body, load_body
from core.text.messages import Message, clause, join_messages, message, restore_message, translated, wording_of
from lab.commands import PROJECT
from tests.support.catalogue import message_templates
from tests.support.house import sources

TEMPLATES = sorted(message_templates())
_MISSED = """
import sys
from importlib import import_module
import os
import django
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
django.setup()
from core.errors import error_classes
for name in ("gateway.urls", "gateway.tasks"):
    import_module(name)
declared = set(error_classes())
for name in sys.stdin.read().split():
    import_module(name)
print(set(error_classes()) - declared)
"""


def names_in(template: str) -> Iterator[str]:
    return (name for _, name, _, _ in Formatter().parse(template) if name)


def test_there_are_templates_to_look_at() -> None:
    assert len(TEMPLATES) > 300


@pytest.mark.parametrize("template", TEMPLATES)
def test_it_is_said_in_english_and_in_german(template: str) -> None:
    made = message(template, **{name: f"<{name}>" for name in names_in(template)})
    with override("en"):
        assert translated(made) == made
    with override("de"):
        german = translated(made)
    for name in names_in(template):
        assert f"<{name}>" in german
    is_only_places = not "".join(text for text, *_ in Formatter().parse(template)).strip(" :.;,()")
    assert german != made or is_only_places


def test_what_is_declared_is_said_in_german() -> None:
    with override("de"):
        # A single word may be the same in both languages.
        assert [text for text in registered_texts() if translated(text) == text and " " in text] == []
        assert [error for error in error_classes() if translated(error.title) == error.title] == []


def test_every_class_of_errors_is_declared_before_requests_are_served() -> None:
    # In a process of its own: here, other tests have imported modules that a table of all errors would have missed.
    modules = [".".join(source.relative_to(PROJECT).with_suffix("").parts) for source in sources()]
    printed = subprocess.run(
        [sys.executable, "-c", _MISSED],
        cwd=PROJECT,
        input=" ".join(modules),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    assert printed == "set()\n"


def test_messages_within_messages_are_translated_and_names_are_not() -> None:
    made = message("This is a security change: {ground}.", ground=clause("Enable a user's account."))
    assert made == "This is a security change: enable a user's account."
    named = message("There is a role called {name} already.", name="Users")
    with override("de"):
        assert translated(made).startswith("Diese Änderung ist sicherheitsrelevant: ")
        assert "enable" not in translated(made)
        assert not translated(made).endswith("..")
        assert '"Users"' in translated(message('"{name}"', name="Users"))
        assert "Users" in translated(named)
        assert translated("The directory refused it, somehow.") == "The directory refused it, somehow."


def test_a_kept_sentence_is_told_by_what_was_kept_beside_it() -> None:
    inner = message("member of {group}", group="Domain Admins")
    made = message("the target is a protected object ({protection})", protection=inner)
    kept = json.loads(json.dumps(wording_of([made, "plain"])))
    again = restore_message(str(made), kept)
    assert isinstance(again, Message)
    with override("de"):
        assert translated(again) == translated(made) != made
    # What was written by somebody else is not believed, and older releases kept nothing beside it.
    kept[made]["text"] = "something else"
    assert not isinstance(restore_message(str(made), kept), Message)
    assert restore_message("plain", None) == "plain"


class _Example(Body):
    name: str
    count: int = 1


def test_what_a_shape_refuses_is_a_message() -> None:
    with pytest.raises(Exception, match="Field required") as refusal:
        load_body(_Example, {"count": "x", "other": 1})
    details = [error.detail for error in refusal.value.errors]  # type: ignore[attr-defined]
    assert all(isinstance(detail, Message) for detail in details)
    with override("de"):
        assert field_message(details[0]) == "Füllen Sie das aus."
        assert all(field_message(detail) != detail for detail in details)
        assert join_messages(details).count("; ") == 2


@pytest.mark.parametrize(("template", "advice"), sorted(ADVICE.items()))
def test_advice_uses_the_values_of_what_was_said(template: str, advice: str) -> None:
    assert set(names_in(advice)) <= set(names_in(template))
