"""Sentences that remember what they were made of: English for programs, the reader's language at the edge.

`scripts/make-translations` collects what stands in `message("…")`. Nobody takes a finished sentence apart.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from django.utils.translation import gettext

Wording = dict[str, Any]
"""Of the English text of each kept message its template and values, as JSON holds them."""


class Message(str):
    """A finished English sentence with the template and the values that it was made of."""

    __slots__ = ("template", "values")

    template: str
    values: Mapping[str, Any]

    @classmethod
    def _of(cls, text: str, template: str, values: Mapping[str, Any]) -> Self:
        made = cls(text)
        made.template, made.values = template, values
        return made

    def __reduce__(self) -> Any:
        return self._of, (str(self), self.template, self.values)

    def with_values(self, change: Callable[[str], str]) -> "Message":
        """The same sentence with each of its values changed."""
        values = {
            name: value.with_values(change) if isinstance(value, Message) else change(str(value))
            for name, value in self.values.items()
        }
        return self._of(self.template.format(**values), self.template, values)


def message(template: str, /, **values: Any) -> Message:
    """A sentence from a template such as `The role {name} is in use.` Values may be messages themselves."""
    return Message._of(template.format(**values), template, values)


def clause(sentence: str) -> Message:
    """An operation's summary as a part of another sentence: `Delete a user.` is `delete a user` there."""
    return Message._of(f"{sentence[:1].lower()}{sentence[1:]}".rstrip("."), sentence, {})


def listed(sentences: Iterable[str]) -> Message:
    """Several sentences as one, with semicolons between them."""
    values = {f"part{number}": sentence for number, sentence in enumerate(sentences, 1)}
    template = "; ".join(f"{{{name}}}" for name in values)
    return message(template, **values)


def translated(text: str) -> str:
    """A sentence of the gateway's in the reader's language.

    A text that is no message is known if it has no values in it, such as an error's title; others stay as they are.
    """
    if isinstance(text, Message):
        values = {
            name: translated(value) if isinstance(value, Message) else value for name, value in text.values.items()
        }
        told = gettext(text.template).format(**values)
        return told if text.endswith(".") else told.removesuffix(".")
    return gettext(text) if text else ""


def wording_of(texts: Iterable[str]) -> Wording | None:
    """What is kept beside English sentences so that `worded` can tell them in another language; None for nothing."""
    return {str(text): _as_json(text) for text in texts if isinstance(text, Message) and text.values} or None


def worded(text: str, wording: Wording | None) -> str:
    """A kept sentence as the message that it was; the text itself where nothing fits it."""
    kept = (wording or {}).get(text)
    made = text if kept is None else _from_json(kept)
    return made if made == text else text


def _as_json(text: Message) -> dict[str, Any]:
    values = {
        name: _as_json(value) if isinstance(value, Message) else str(value) for name, value in text.values.items()
    }
    return {"text": str(text), "template": text.template, "values": values}


def _from_json(kept: Mapping[str, Any]) -> Message:
    values = {name: _from_json(value) if isinstance(value, dict) else value for name, value in kept["values"].items()}
    return Message._of(kept["text"], kept["template"], values)
