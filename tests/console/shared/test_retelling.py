"""What operations keep and answer in English is told again in the reader's language, none of it overlooked."""

from collections.abc import Iterator

import pytest
from django.utils.translation import override

from approvals.security_attributes import REVIEWED
from console.shared import retelling
from core.operation import Effect, operations


@pytest.fixture
def told_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A language in which every sentence that is known stands in guillemets."""
    monkeypatch.setattr(retelling, "gettext", lambda text: f"«{text.removesuffix('.')}»{'.' * text.endswith('.')}")
    retelling._retold.cache_clear()
    with override("de"):
        yield
    retelling._retold.cache_clear()


def unknown(sentences: set[str]) -> list[str]:
    return sorted(sentence for sentence in sentences if "«" not in retelling.retold(sentence))


def test_every_meaning_of_an_attribute_and_every_change_is_known(told_again: None) -> None:
    meanings = {review.reason for review in REVIEWED.values() if review.verdict in ("security", "unwritable")}
    assert unknown(meanings) == []
    assert unknown({operation.summary for operation in operations() if operation.effect is Effect.CHANGE}) == []


def test_the_parts_of_a_sentence_are_told_again_too(told_again: None) -> None:
    assert "«Enable a user's account»" in retelling.retold("This is a security change: enable a user's account.")
    assert retelling.retold("The directory refused it, somehow.") == "The directory refused it, somehow."


def test_in_english_nothing_is_told_again() -> None:
    assert retelling.retold("It is your own request.") == "It is your own request."
