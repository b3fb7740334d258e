"""Sentences that remember their template and values: English for programs, the reader's language at the edge.

`scripts/make-translations` collects the templates in `message("…")`. No code parses a finished sentence.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from django.utils.translation import gettext

Wording = dict[str, Any]
"""The template and values of each stored message, by its English text, as JSON."""


class Message(str):
    """A finished English sentence with the template and values it was made of."""

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
    """Make a sentence from a template such as `The role {name} is in use.` Values may be messages themselves."""
    return Message._of(template.format(**values), template, values)


def clause(sentence: str) -> Message:
    """An operation's summary as part of another sentence: `delete a user` for `Delete a user.`"""
    return Message._of(f"{sentence[:1].lower()}{sentence[1:]}".rstrip("."), sentence, {})


def join_messages(sentences: Iterable[str]) -> Message:
    """Join sentences into one, with semicolons between them."""
    values = {f"part{number}": sentence for number, sentence in enumerate(sentences, 1)}
    template = "; ".join(f"{{{name}}}" for name in values)
    return message(template, **values)


def translated(text: str) -> str:
    """Translate one of the gateway's sentences into the reader's language.

    Plain text without values, such as an error's title, is looked up as it is; unknown text stays English.
    """
    if isinstance(text, Message):
        values = {
            name: translated(value) if isinstance(value, Message) else value for name, value in text.values.items()
        }
        sentence = gettext(text.template).format(**values)
        return sentence if text.endswith(".") else sentence.removesuffix(".")  # a `clause` has lost its full stop
    return gettext(text) if text else ""


def wording_of(texts: Iterable[str]) -> Wording | None:
    """What to store beside English sentences so that `restore_message` can translate them later; None if nothing."""
    return {str(text): _as_json(text) for text in texts if isinstance(text, Message) and text.values} or None


def restore_message(text: str, wording: Wording | None) -> str:
    """Turn a stored sentence back into a message; returns the text itself if its wording is missing or differs."""
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
