"""Everything that the log tells of has a label, which reads well in English and in German, with a name and without."""

import re
from collections.abc import Iterator

import pytest
from django.utils import translation

from audit.model_changes.descriptions import AuditedModel, audited_models, change_operations
from core.operation import operations
from core.text.messages import Message, translated
from core.text.vocabulary import humanize, noun_label
from directory.shapes.kinds import KINDS, KindDeclaration
from directory.shapes.wording.change_words import kind_words
from directory.shapes.wording.labels import label_of, operation_label, operation_words

NAMES = sorted({*(operation.name for operation in operations()), *change_operations()})
_ARTICLE = re.compile(r"a (?=[^aeio])|an (?=[aeioA])")
_GERMAN_ARTICLE = re.compile(r"ein(?:e[mnr]?)? ")


@pytest.fixture
def german() -> Iterator[None]:
    with translation.override("de"):
        yield


def _object_in(label: str) -> str | None:
    """What stands in the braces; None without any. There is one pair at most."""
    assert label.count("{") == label.count("}") <= 1
    found = re.search(r"\{(.+)\}", label)
    return found[1] if found else None


@pytest.mark.parametrize("name", NAMES)
def test_english(name: str) -> None:
    label = operation_label(name)
    assert re.match(r"[A-Z][a-z]+ ", label), "it is a command"
    thing = _object_in(label)
    assert thing is None or _ARTICLE.match(thing)
    assert "{" not in operation_words(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("german")
def test_german(name: str) -> None:
    label = operation_label(name)
    with translation.override("en"):
        english = operation_label(name)
    assert label != english
    thing = _object_in(label)
    assert (thing is None) is (_object_in(english) is None)
    assert thing is None or _GERMAN_ARTICLE.match(thing)
    assert operation_words(name)[0].isupper()
    assert thing is None or "Ada Lovelace" in operation_words(name, "Ada Lovelace")


@pytest.mark.parametrize("table", list(audited_models()), ids=lambda each: each.resource)
@pytest.mark.usefixtures("german")
def test_members_of_our_own_tables(table: AuditedModel) -> None:
    assert len(set(table.shown_members)) == len(table.shown_members)
    in_english = [name for name in table.shown_members if label_of(name) == name and noun_label(name) == humanize(name)]
    assert in_english == []


@pytest.mark.parametrize("declared", KINDS.values(), ids=list(KINDS))
def test_kinds(declared: KindDeclaration) -> None:
    assert _ARTICLE.sub("", declared.one, count=1) == declared.singular
    assert declared.many == f"{declared.singular}s"
    with translation.override("de"):
        words: list[Message] = [declared.singular, declared.one, declared.many]
        assert [translated(text) for text in words if translated(text) == text and text != "container"] == []
        assert _GERMAN_ARTICLE.match(translated(declared.one))
        assert kind_words(declared.kind, 2) == translated(declared.many)
