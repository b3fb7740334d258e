"""Words for the names of tables, states and members, in the reader's language.

Operations and kinds of directory objects declare their own labels.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from django.utils.translation import get_language, gettext, pgettext, pgettext_lazy

_Name = TypeVar("_Name")
DECLARED_TEXTS: Final[list[str]] = []
"""English texts of tables, which are translated where they are shown."""


def declare_texts(texts: Iterable[str]) -> None:
    """Declare English texts for translation; empty ones are left out."""
    DECLARED_TEXTS.extend(filter(None, texts))


def texts_by_name(table: dict[_Name, str]) -> dict[_Name, str]:
    """Declare the texts of a table for translation; returns the table."""
    declare_texts(table.values())
    return table


def humanize(name: str) -> str:
    """Spell an identifier such as `organizationalUnit`, `reset-password` or `user_with_spn` in English words."""
    text = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return text.replace("-", " ").replace("_", " ").strip()


def noun_label(name: str) -> str:
    """The words for an identifier in the reader's language, or in English if nobody translated them."""
    return translate_label(humanize(name))


def translate_label(text: str) -> str:
    """Translate English words into the reader's language; unknown ones stay English."""
    if text == "unknown":  # an outcome: the catalogue has another `unknown`, of an address
        return pgettext("word", "unknown")
    return gettext(text) if text else ""


def risk_words(risk: str) -> str:
    """The name of a change's risk in the reader's language."""
    return str(_RISKS.get(risk, risk))


def capitalized(text: str) -> str:
    """Capitalize the first letter only: German nouns keep their capitals."""
    return text[:1].upper() + text[1:]


def in_sentence(label: str) -> str:
    """Spell a label for the middle of a sentence: in English only abbreviations keep their capitals."""
    if not (get_language() or "en").startswith("en"):  # German writes its nouns with capitals everywhere
        return label
    first = label.partition(" ")[0]
    return label if first.isupper() or any(letter.isupper() for letter in first[1:]) else label[:1].lower() + label[1:]


_RISKS = {
    "ordinary": pgettext_lazy("risk", "ordinary"),
    "destructive": pgettext_lazy("risk", "destructive"),
    "security": pgettext_lazy("risk", "security"),
}

WORDS = tuple(
    word
    for line in (
        # rows of the gateway's own tables, one and many
        "objects of any kind, another object, account, accounts, API key, API keys, api key, api keys, person",
        "people, role, roles, directory, directories, directory connection, directory connections, agent",
        "agents, agent client, agent clients, permission group, permission groups, saved filter, saved filters",
        "change request, change requests, webhook endpoint, webhook endpoints, webhook delivery",
        "webhook deliveries, key",
        # states of keys, and services that the gateway depends on
        "revoked, database, redis, workers",
        # members whose directory attributes have other labels
        "description, display name, name, comment",
        # search scopes, and the scopes and types of groups
        "subtree, one level, global, domain local, universal, security, distribution",
    )
    for word in line.split(", ")
)
"""Words that no declaration provides; those for states, actions and our own tables are made from their names."""
