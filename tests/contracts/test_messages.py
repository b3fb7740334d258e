"""Every sentence of the gateway, with values or without, can be said in English and in German."""

import json
from collections.abc import Iterator
from string import Formatter

import pytest
from django.utils.translation import override

from console.shared.field_messages import ADVICE, field_message
from console.shared.registered_texts import registered_texts
from core.errors import every_error
from core.shapes import Body, load_body
from core.text.messages import Message, clause, listed, message, translated, worded, wording_of
from tests.support.catalogue import message_templates

TEMPLATES = sorted(message_templates())


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
    assert german != made or is_only_places or template.startswith("X-Change-Reason")


def test_what_is_declared_is_said_in_german() -> None:
    with override("de"):
        # A single word may be the same in both languages.
        assert [text for text in registered_texts() if translated(text) == text and " " in text] == []
        assert [error for error in every_error() if translated(error.title) == error.title] == []


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
    again = worded(str(made), kept)
    assert isinstance(again, Message)
    with override("de"):
        assert translated(again) == translated(made) != made
    # What was written by somebody else is not believed, and older releases kept nothing beside it.
    kept[made]["text"] = "something else"
    assert not isinstance(worded(str(made), kept), Message)
    assert worded("plain", None) == "plain"


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
        assert listed(details).count("; ") == 2


@pytest.mark.parametrize(("template", "advice"), sorted(ADVICE.items()))
def test_advice_uses_the_values_of_what_was_said(template: str, advice: str) -> None:
    assert set(names_in(advice)) <= set(names_in(template))
