"""The codes of refusals in words: a record of the log keeps the code alone."""

from functools import cache

from core.errors import every_error
from core.text.messages import translated


def title_of_code(code: str | None) -> str:
    """What a code means, in the reader's language; empty for one that no refusal has."""
    return translated(_titles().get(code or "", ""))


@cache
def _titles() -> dict[str, str]:
    known: dict[str, str] = {}
    for error in every_error():
        known.setdefault(error.code, error.title)
    return known
